// An Nsight Systems export as an SQLite database. libsqlite3 is loaded when it is needed: programs
// that never read such a file do not depend on it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "workloads/import/nsight_log.h"

namespace allocmark {
namespace {

constexpr const char* kTable = "CUDA_GPU_MEMORY_USAGE_EVENTS";
// SQLite's own numbers, which its interface promises to keep.
constexpr int kOpenReadOnly = 1;
constexpr int kRow = 100;
constexpr int kDone = 101;
constexpr int kSqliteNull = 5;
// All of them are held in memory.
constexpr std::uint64_t kRowCountMax = std::uint64_t{1} << 22;

struct Sqlite {
  void* library = nullptr;
  int (*open_v2)(const char*, void**, int, const char*) = nullptr;
  int (*close)(void*) = nullptr;
  int (*prepare_v2)(void*, const char*, int, void**, const char**) = nullptr;
  int (*step)(void*) = nullptr;
  int (*finalize)(void*) = nullptr;
  std::int64_t (*column_int64)(void*, int) = nullptr;
  int (*column_type)(void*, int) = nullptr;
  const unsigned char* (*column_text)(void*, int) = nullptr;
  const char* (*errmsg)(void*) = nullptr;

  bool load();

 private:
  template <typename Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
  }
};

bool Sqlite::load() {
  library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && find(open_v2, "sqlite3_open_v2") && find(close, "sqlite3_close") &&
         find(prepare_v2, "sqlite3_prepare_v2") && find(step, "sqlite3_step") &&
         find(finalize, "sqlite3_finalize") && find(column_int64, "sqlite3_column_int64") &&
         find(column_type, "sqlite3_column_type") && find(column_text, "sqlite3_column_text") &&
         find(errmsg, "sqlite3_errmsg");
}

// An open database; closed with it.
class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    if (!sqlite_.load()) {
      throw UsageError(
          {.what = "an SQLite database, and this machine has no libsqlite3.so.0 to read it",
           .where = path,
           .wanted = "the library, or the table as CSV",
           .next = fmt::format("apt-get install libsqlite3-0, or where there is sqlite3: sqlite3 "
                               "-header -csv FILE 'select * from {}' > FILE.csv",
                               kTable)});
    }
    void* database = nullptr;
    const int status = sqlite_.open_v2(path.c_str(), &database, kOpenReadOnly, nullptr);
    database_ = database;
    if (status != 0) fail("the database cannot be opened");
  }
  ~Database() {
    if (database_ != nullptr) sqlite_.close(database_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Calls row(statement) for each row of the answer.
  template <typename Row>
  void select(const std::string& query, Row row) {
    void* statement = nullptr;
    if (sqlite_.prepare_v2(database_, query.c_str(), -1, &statement, nullptr) != 0)
      fail("the database refuses a query");
    int status = kRow;
    while ((status = sqlite_.step(statement)) == kRow) row(statement);
    sqlite_.finalize(statement);
    if (status != kDone) fail("the database is damaged");
  }
  [[nodiscard]] std::uint64_t number(void* row, int column) const {
    return static_cast<std::uint64_t>(sqlite_.column_int64(row, column));
  }
  [[nodiscard]] bool is_null(void* row, int column) const {
    return sqlite_.column_type(row, column) == kSqliteNull;
  }
  [[nodiscard]] std::string text(void* row, int column) const {
    const unsigned char* text = sqlite_.column_text(row, column);
    return text == nullptr ? "" : reinterpret_cast<const char*>(text);
  }

 private:
  [[noreturn]] void fail(const char* what) {
    throw UsageError({.what = what,
                      .where = path_,
                      .wanted = "an export of Nsight Systems: nsys export --type sqlite",
                      .got = database_ == nullptr ? "" : sqlite_.errmsg(database_),
                      .next = "export the report again"});
  }

  std::string path_;
  Sqlite sqlite_;
  void* database_ = nullptr;
};

// A view under the table's name would run whatever query the file says, without end if it likes.
void refuse_view(Database& database, const std::string& path) {
  std::string kind;
  database.select(fmt::format("pragma table_list({})", kTable),
                  [&](void* row) { kind = database.text(row, 2); });
  // Libraries before 3.37 do not say.
  if (kind.empty() || kind == "table") return;
  throw UsageError({.what = fmt::format("{} is no table", kTable),
                    .where = path,
                    .wanted = "an export of Nsight Systems: nsys export --type sqlite",
                    .got = "a " + kind,
                    .next = "export the report again"});
}

// Columns of the table that we know; those that older exports lack are 0 (device memory).
std::string query_for(Database& database, const std::string& path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kKnownColumns = {
      {{"start", "0"},
       {"globalPid", "0"},
       {"deviceId", "0"},
       {"streamId", "0"},
       {"address", ""},
       {"bytes", ""},
       {"memKind", "2"},
       {"memoryOperationType", ""}}};
  std::vector<std::string> found;
  database.select(fmt::format("pragma table_info({})", kTable),
                  [&](void* row) { found.push_back(database.text(row, 1)); });
  std::string query = "select ";
  for (const auto& [column, missing] : kKnownColumns) {
    const bool has = std::find(found.begin(), found.end(), column) != found.end();
    if (!has && missing.empty()) {
      throw UsageError(
          {.what = fmt::format("a database without {}", found.empty() ? "the table" : "a column"),
           .where = path,
           .wanted = found.empty() ? kTable : std::string(column),
           .next = "record with nsys profile --cuda-memory-usage=true, then nsys "
                   "export --type sqlite"});
    }
    query += fmt::format("{}{}", query.size() > 7 ? "," : "", has ? column : missing);
  }
  return fmt::format("{} from {}", query, kTable);
}

}  // namespace

Recording open_nsight_sqlite(const std::string& path) {
  Database database(path);
  refuse_view(database, path);
  std::vector<NsightRow> rows;
  // A damaged file can name a page of rows again and again.
  std::uint64_t row_count = 0;
  database.select(query_for(database, path), [&](void* row) {
    if (++row_count > kRowCountMax) {
      throw UsageError({.what = "the table is too long",
                        .where = path,
                        .wanted = fmt::format("at most {} rows", kRowCountMax),
                        .got = "more",
                        .next = "select the rows in question into a CSV file"});
    }
    if (database.is_null(row, 7)) return;
    rows.push_back({.start_ns = database.number(row, 0),
                    .process = database.number(row, 1),
                    .device = database.number(row, 2),
                    .stream = database.number(row, 3),
                    .address = database.number(row, 4),
                    .size_bytes = database.number(row, 5),
                    .memory_kind = database.number(row, 6),
                    .is_free = database.number(row, 7) == 1});
  });
  return make_nsight_recording(path, std::move(rows));
}

}  // namespace allocmark
