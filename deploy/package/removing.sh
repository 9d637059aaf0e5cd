#!/bin/sh
# Before the package is removed ("remove" of dpkg, 0 of rpm), but not before an update.
set -e
case ${1:-0} in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now weir.service weir-proxy.service
	fi
	;;
esac
