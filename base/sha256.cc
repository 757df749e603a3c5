// The constants are computed as the standard defines them, from the roots of the first primes.
#include "base/sha256.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace allocmark {
namespace {

constexpr std::size_t kBlockBytes = 64;

using State = std::array<std::uint32_t, 8>;

// The first 32 bits of the fraction of a root; 64 bits of mantissa are enough for primes below 312.
std::uint32_t fraction_bits(long double root) {
  return static_cast<std::uint32_t>(std::floor((root - std::floor(root)) * 4294967296.0L));
}

struct Constants {
  State start{};                          // square roots of the first 8 primes
  std::array<std::uint32_t, 64> round{};  // cube roots of the first 64
};

Constants make_constants() {
  Constants constants;
  std::size_t count = 0;
  for (std::uint32_t candidate = 2; count < constants.round.size(); ++candidate) {
    bool prime = true;
    for (std::uint32_t divisor = 2; divisor * divisor <= candidate && prime; ++divisor) {
      prime = candidate % divisor != 0;
    }
    if (!prime) continue;
    if (count < constants.start.size()) {
      constants.start[count] = fraction_bits(std::sqrt(static_cast<long double>(candidate)));
    }
    constants.round[count++] = fraction_bits(std::cbrt(static_cast<long double>(candidate)));
  }
  return constants;
}

std::uint32_t big_endian(const char* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[i]);
  return word;
}

void add_block(State& state, const char* block, const Constants& constants) {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (std::size_t i = 16; i < words.size(); ++i) {
    const std::uint32_t early = words[i - 15];
    const std::uint32_t late = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] +
               (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) +
               (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t sum_e = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t first = h + sum_e + ((e & f) ^ (~e & g)) + constants.round[i] + words[i];
    const std::uint32_t sum_a = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t second = sum_a + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

// Takes bytes in whole blocks, then the rest.
class Hash {
 public:
  void add_blocks(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
      add_block(state_, bytes.data() + at, constants());
    }
    count_ += bytes.size();
  }

  std::string finish(std::string_view rest) {
    // The rest, a bit that is set, zeros, and the length in bits fill one or two blocks.
    std::string end(rest);
    const std::uint64_t bit_count = (count_ + rest.size()) * 8;
    end += '\x80';
    while (end.size() % kBlockBytes != kBlockBytes - 8) end += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) {
      end += static_cast<char>(bit_count >> shift & 0xff);
    }
    add_blocks(end);
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 0xf];
    }
    return text;
  }

 private:
  static const Constants& constants() {
    static const Constants made = make_constants();
    return made;
  }

  State state_ = constants().start;
  std::uint64_t count_ = 0;  // of bytes in whole blocks
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Hash hash;
  const std::size_t whole = bytes.size() / kBlockBytes * kBlockBytes;
  hash.add_blocks(bytes.substr(0, whole));
  return hash.finish(bytes.substr(whole));
}

std::string sha256_of(const ByteSource& next) {
  Hash hash;
  std::string piece(std::size_t{1} << 20, '\0');
  while (true) {
    const std::size_t count = next(piece);
    const std::size_t whole = count / kBlockBytes * kBlockBytes;
    hash.add_blocks(std::string_view(piece).substr(0, whole));
    if (count < piece.size())
      return hash.finish(std::string_view(piece).substr(whole, count - whole));
  }
}

std::string sha256_of_file(const std::string& path, const InputKind& kind) {
  InputFile file(path, kind);
  return sha256_of([&](std::span<char> into) { return file.read(into); });
}

}  // namespace allocmark
