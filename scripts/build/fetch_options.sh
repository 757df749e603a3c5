# What the scripts that fetch wheels share; they source it with their own arguments. In: INTO and WHEEL, as they are without
# options. Out: both as the options say, the other words as arguments, `say TEXT` and `fail CODE TEXT`.
FETCH=$(basename "$0" .sh)

say() { printf '[%s] %s\n' "$FETCH" "$*"; }
fail() { printf '[%s] error: %s\n' "$FETCH" "$2" >&2; exit "$1"; }

while [ $# -gt 0 ]; do
  case $1 in
    --into) [ $# -gt 1 ] || fail 2 "--into wants a folder"; INTO=$2; shift 2 ;;
    --wheel) [ $# -gt 1 ] || fail 2 "--wheel wants a file"; WHEEL=$2; shift 2 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) fail 2 "there is no option '$1'; see --help" ;;
    *) break ;;
  esac
done
