#!/bin/sh
# After the package is installed or updated: the user of the units, which start when somebody enables them.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers weir.conf
elif ! id weir >/dev/null 2>&1; then
	if command -v useradd >/dev/null; then
		useradd --system --no-create-home weir
	else
		adduser -S -D -H weir
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart weir.service weir-proxy.service
fi
