// Package supervisor tells the service manager of the process, such as systemd, what state the process is in. If
// there is none ($NOTIFY_SOCKET), it does nothing.
package supervisor

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready says that the process serves requests.
func Ready(log *slog.Logger) { notify(daemon.SdNotifyReady, log) }

// Stopping says that the process is about to end.
func Stopping(log *slog.Logger) { notify(daemon.SdNotifyStopping, log) }

func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager cannot be told about the state of the process", "state", state, "error", err)
	}
}
