"""Which headers of others declare a name, for includes.py. A header stands for those that its own manual says it includes."""
# Headers, and the names below std that any of them declares. The first header is the one to include.
STD = [line.split(": ") for line in """
algorithm: adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill fill_n find find_if
algorithm: find_if_not for_each generate is_sorted lower_bound max max_element merge min min_element minmax minmax_element mismatch none_of
algorithm: nth_element partial_sort partition remove remove_if replace replace_copy reverse rotate set_difference sort stable_partition
algorithm: stable_sort transform unique upper_bound
array: array to_array
atomic: atomic atomic_ref memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst
barrier: barrier
bit: bit_cast bit_ceil bit_floor bit_width countl_one countl_zero countr_zero has_single_bit popcount rotl rotr
cfenv: fegetround fesetround
cctype: isalnum isalpha isdigit islower isspace isupper tolower toupper
charconv: from_chars to_chars
charconv system_error: errc
chrono: chrono
clocale: setlocale
cmath: cbrt ceil erfc exp exp2 expm1 floor fmod isfinite isinf isnan ldexp llround log log10 log1p log2 lround nextafter pow round sqrt
cmath cstdlib: abs
compare: strong_ordering
concepts: convertible_to same_as
condition_variable: condition_variable condition_variable_any cv_status
coroutine: coroutine_handle suspend_always suspend_never
csignal: raise
cstdint: int16_t int32_t int64_t int8_t intptr_t uint16_t uint32_t uint64_t uint8_t uintptr_t
cstddef: byte max_align_t ptrdiff_t
cstdio: FILE fclose ferror fflush fgets fopen fprintf fputc fputs fread fwrite printf rename snprintf sscanf
cstdlib: abort aligned_alloc atexit atoi atoll exit free getenv malloc strtod strtol strtoull
cstring: strchr memchr memcmp memcpy memmove memset strcmp strerror strlen strncmp
ctime chrono: time tm
ctime: clock clock_t
deque: deque
exception: current_exception exception_ptr rethrow_exception
exception stdexcept new: exception
filesystem: filesystem
fstream: ifstream ofstream
functional: invoke function greater greater_equal hash less
future: async future launch promise
iterator: back_inserter istreambuf_iterator make_move_iterator
initializer_list: initializer_list
iostream: cerr cin cout
limits: numeric_limits
list: list
locale: locale
map: map multimap
memory: construct_at destroy_at make_shared make_unique shared_ptr unique_ptr weak_ptr
mutex: call_once lock_guard mutex once_flag scoped_lock unique_lock
new: bad_alloc
numeric: accumulate gcd iota lcm partial_sum
optional: nullopt nullopt_t optional
ranges: views
ratio chrono: milli nano
set: multiset set
span: as_bytes as_writable_bytes span
sstream: istringstream ostringstream stringstream
stdexcept: invalid_argument logic_error out_of_range runtime_error
string: stod stoi stoul stoull string to_string
string sstream fstream iostream: getline ios ws
string_view string: string_view
system_error: generic_category system_error
system_error filesystem: error_code
stop_token: stop_token
thread: jthread this_thread thread
tuple: tie tuple
type_traits: invoke_result_t is_aggregate_v is_class_v is_enum_v is_integral_v is_pointer_v is_same_v is_trivially_copyable_v is_unsigned_v is_void_v
type_traits: remove_const_t remove_pointer_t remove_reference_t type_identity_t underlying_type_t
unordered_map: unordered_map
unordered_set: unordered_set
utility string vector memory optional map set functional span: exchange forward move swap
utility: index_sequence index_sequence_for make_index_sequence
utility map unordered_map: pair
utility optional: in_place
variant: get_if holds_alternative monostate variant
""".strip().splitlines()]
# Names that several headers each declare for what they hold; they come with it.
WITH_CONTAINERS = {"begin", "distance", "empty", "end", "erase", "erase_if", "get", "next", "prev", "size"}
# Whole namespaces, and names at the front of a library's own.
LIBRARIES = {
    "std": None,
    "fmt": {"": ["fmt/format.h"], "join": ["fmt/ranges.h", "fmt/format.h"], "gmtime": ["fmt/chrono.h"], "localtime": ["fmt/chrono.h"]},
    "nlohmann": {"": ["nlohmann/json.hpp", "nlohmann/json_fwd.hpp"]},
    "CLI": {"": ["CLI/App.hpp"]},
    "benchmark": {"": ["benchmark/benchmark.h"]},
}
_STD = {name: headers.split() for headers, names in STD for name in names.split()} | {"vector": ["vector"]}


def headers_of(space, name):
    """The headers of which one has to be there; None for a name that is not known, [] where any will do."""
    if space == "std":
        return [] if name in WITH_CONTAINERS | {"ranges", "size_t"} else _STD.get(name)
    if space:
        return LIBRARIES[space].get(name, LIBRARIES[space][""])
    return ["cuda_runtime_api.h", "cuda_runtime.h"] if name.startswith("cuda") else ["cuda.h"]
