#!/usr/bin/env bash
# A package of the fake CANN: installs what is behind the last line of this script.
set -euo pipefail
vendor=@VENDOR@
folder="${ASCEND_OPP_PATH:-}"
for word in "$@"; do
  case "${word}" in
    --install-path=/*) folder="${word#--install-path=}" ;;
    *) echo "unknown option: ${word}" >&2; exit 1 ;;
  esac
done
if [ -z "${folder}" ]; then
  echo "ASCEND_OPP_PATH is not set, and no --install-path=FOLDER is given" >&2
  exit 1
fi
place="${folder}/vendors/${vendor}"
rm -rf -- "${place}"
mkdir -p -- "${place}/bin"
first="$(awk '/^# data:$/ { print NR + 1; exit }' "$0")"
tail -n "+${first}" "$0" | tar xf - -C "${place}"
cat > "${place}/bin/set_env.bash" <<END
export ASCEND_CUSTOM_OPP_PATH="${place}:\${ASCEND_CUSTOM_OPP_PATH:-}"
export LD_LIBRARY_PATH="${place}/op_api/lib:\${LD_LIBRARY_PATH:-}"
END
echo "installed ${place}"
exit 0
# data:
