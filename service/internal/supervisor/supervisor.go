// Package supervisor tells the service manager of the process, such as systemd, what state the process is in, if
// there is one ($NOTIFY_SOCKET), and hears when it wants the files reloaded.
package supervisor

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready says that the process serves requests.
func Ready(log *slog.Logger) { notify(daemon.SdNotifyReady, log) }

// Stopping says that the process is about to end.
func Stopping(log *slog.Logger) { notify(daemon.SdNotifyStopping, log) }

// OnHangup calls reload upon SIGHUP, until stop is called.
func OnHangup(reload func()) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			reload()
		}
	}()
	return func() { signal.Stop(hangups); close(hangups) }
}

func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager cannot be told about the state of the process", "state", state, "error", err)
	}
}
