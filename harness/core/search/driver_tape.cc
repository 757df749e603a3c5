// See driver_tape.h.
#include "harness/core/search/driver_tape.h"

#include "base/assert.h"
#include "base/error.h"

namespace allocmark {

bool DriverTape::gives_handle(Kind kind) {
  return kind == Kind::CreateEvent || kind == Kind::CreatePage;
}

std::uint64_t* DriverTape::handle_of(Call& call) {
  switch (call.kind) {
    case Kind::DestroyEvent:
    case Kind::RecordEvent:
    case Kind::EventDone:
    case Kind::WaitForEvent:
    case Kind::ReleasePage:
      return &call.words[0];
    case Kind::MapPage:
      return &call.words[2];
    default:
      return nullptr;
  }
}

void DriverTape::make(caching::Driver& device, Call& call) {
  auto& [first, second, third] = call.words;
  switch (call.kind) {
    case Kind::CheckPendingError:
      return device.check_pending_error();
    case Kind::Allocate: {
      const std::optional<std::uint64_t> address = device.allocate(first, second);
      call.is_given = address.has_value();
      third = address.value_or(0);
      return;
    }
    case Kind::Free:
      return device.free(first);
    case Kind::Memory: {
      const caching::DeviceMemory memory = device.memory();
      first = memory.free_bytes;
      second = memory.total_bytes;
      return;
    }
    case Kind::DeviceTotalBytes:
      first = device.device_total_bytes();
      return;
    case Kind::CreateEvent:
      first = device.create_event();
      return;
    case Kind::DestroyEvent:
      return device.destroy_event(first);
    case Kind::RecordEvent:
      return device.record_event(first, second);
    case Kind::EventDone:
      call.is_given = device.event_done(first);
      return;
    case Kind::WaitForEvent:
      return device.wait_for_event(first);
    case Kind::WaitForStream:
      return device.wait_for_stream(first);
    case Kind::WaitForDevice:
      return device.wait_for_device();
    case Kind::ReserveAddress:
      second = device.reserve_address(first);
      return;
    case Kind::FreeAddress:
      return device.free_address(first, second);
    case Kind::CreatePage: {
      const std::optional<caching::PageHandle> page = device.create_page(first);
      call.is_given = page.has_value();
      second = page.value_or(0);
      return;
    }
    case Kind::ReleasePage:
      return device.release_page(first);
    case Kind::MapPage:
      return device.map_page(first, second, third);
    case Kind::UnmapPage:
      return device.unmap_page(first, second);
    case Kind::AllowAccess:
      return device.allow_access(first, second);
  }
}

DriverTape::Call DriverTape::ask(Call call) {
  if (answering_ != nullptr && answered_count_ < made_count_) {
    const Call& known = calls_[answered_count_++];
    ALLOCMARK_ASSERT(known.kind == call.kind);
    clock_.modelled_ns += known.took_ns;
    return known;
  }
  const std::uint64_t begin_ns = real_clock_.modelled_ns;
  try {
    make(answering_ == nullptr ? device_ : *answering_, call);
  } catch (...) {
    is_whole_ = false;
    throw;
  }
  call.took_ns = real_clock_.modelled_ns - begin_ns;
  clock_.modelled_ns += call.took_ns;
  if (answering_ != nullptr || !is_whole_) return call;
  if (calls_.size() == call_count_max_) {
    is_whole_ = false;
    std::vector<Call>().swap(calls_);
  } else {
    calls_.push_back(call);
  }
  return call;
}

bool DriverTape::make_again(caching::Driver& device, std::size_t end) {
  for (; made_count_ < end; ++made_count_) {
    Call call = calls_[made_count_];
    if (std::uint64_t* const handle = handle_of(call)) *handle = handles_.at(*handle);
    const Call before = call;
    const std::uint64_t begin_ns = real_clock_.modelled_ns;
    try {
      make(device, call);
    } catch (const EnvironmentError&) {
      return false;  // the allocator is to meet it
    }
    call.took_ns = real_clock_.modelled_ns - begin_ns;
    calls_[made_count_] = call;
    if (gives_handle(call.kind) && call.is_given && before.is_given) {
      const std::size_t at = call.kind == Kind::CreateEvent ? 0 : 1;
      handles_[before.words[at]] = call.words[at];
    } else if (call.is_given != before.is_given || call.words != before.words) {
      ++made_count_;
      return false;
    }
  }
  return true;
}

void DriverTape::answer_from_tape(caching::Driver& device) {
  answering_ = &device;
  answered_count_ = 0;
  clock_ = {};
}

caching::Driver& DriverTape::untaped() {
  is_whole_ = false;
  return answering_ == nullptr ? device_ : *answering_;
}

void DriverTape::check_pending_error() { ask({.kind = Kind::CheckPendingError}); }

std::optional<std::uint64_t> DriverTape::allocate(std::uint64_t size_bytes,
                                                  caching::Stream stream) {
  const Call call = ask({.kind = Kind::Allocate, .words = {size_bytes, stream}});
  return call.is_given ? std::optional(call.words[2]) : std::nullopt;
}

void DriverTape::free(std::uint64_t address) { ask({.kind = Kind::Free, .words = {address}}); }

caching::DeviceMemory DriverTape::memory() {
  const Call call = ask({.kind = Kind::Memory});
  return {.free_bytes = call.words[0], .total_bytes = call.words[1]};
}

std::uint64_t DriverTape::device_total_bytes() {
  return ask({.kind = Kind::DeviceTotalBytes}).words[0];
}

caching::Event DriverTape::create_event() { return ask({.kind = Kind::CreateEvent}).words[0]; }

void DriverTape::destroy_event(caching::Event event) {
  ask({.kind = Kind::DestroyEvent, .words = {event}});
}

void DriverTape::record_event(caching::Event event, caching::Stream stream) {
  ask({.kind = Kind::RecordEvent, .words = {event, stream}});
}

bool DriverTape::event_done(caching::Event event) {
  return ask({.kind = Kind::EventDone, .words = {event}}).is_given;
}

void DriverTape::wait_for_event(caching::Event event) {
  ask({.kind = Kind::WaitForEvent, .words = {event}});
}

void DriverTape::wait_for_stream(caching::Stream stream) {
  ask({.kind = Kind::WaitForStream, .words = {stream}});
}

void DriverTape::wait_for_device() { ask({.kind = Kind::WaitForDevice}); }

std::uint64_t DriverTape::reserve_address(std::uint64_t size_bytes) {
  return ask({.kind = Kind::ReserveAddress, .words = {size_bytes}}).words[1];
}

void DriverTape::free_address(std::uint64_t address, std::uint64_t size_bytes) {
  ask({.kind = Kind::FreeAddress, .words = {address, size_bytes}});
}

std::optional<caching::PageHandle> DriverTape::create_page(std::uint64_t size_bytes) {
  const Call call = ask({.kind = Kind::CreatePage, .words = {size_bytes}});
  return call.is_given ? std::optional(call.words[1]) : std::nullopt;
}

void DriverTape::release_page(caching::PageHandle page) {
  ask({.kind = Kind::ReleasePage, .words = {page}});
}

void DriverTape::map_page(std::uint64_t address, std::uint64_t size_bytes,
                          caching::PageHandle page) {
  ask({.kind = Kind::MapPage, .words = {address, size_bytes, page}});
}

void DriverTape::unmap_page(std::uint64_t address, std::uint64_t size_bytes) {
  ask({.kind = Kind::UnmapPage, .words = {address, size_bytes}});
}

void DriverTape::allow_access(std::uint64_t address, std::uint64_t size_bytes) {
  ask({.kind = Kind::AllowAccess, .words = {address, size_bytes}});
}

void DriverTape::prepare_pool() { untaped().prepare_pool(); }

std::optional<std::uint64_t> DriverTape::pool_allocate(std::uint64_t size_bytes,
                                                       caching::Stream stream) {
  return untaped().pool_allocate(size_bytes, stream);
}

void DriverTape::pool_free(std::uint64_t address, caching::Stream stream) {
  untaped().pool_free(address, stream);
}

void DriverTape::trim_pool() { untaped().trim_pool(); }

caching::PoolUsage DriverTape::pool_usage() { return untaped().pool_usage(); }

caching::Stream DriverTape::create_stream() { return untaped().create_stream(); }

void DriverTape::destroy_stream(caching::Stream stream) { untaped().destroy_stream(stream); }

void DriverTape::make_stream_wait(caching::Stream stream, caching::Event event) {
  untaped().make_stream_wait(stream, event);
}

}  // namespace allocmark
