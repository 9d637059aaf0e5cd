package httpserve_test

import (
	stdlog "log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/internal/httpserve"
)

// What net/http writes to package log is in the log of the command, at a bounded rate, and
// afterwards where it was before.
func TestCatchLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b, before strings.Builder
		out, flags := stdlog.Writer(), stdlog.Flags()
		stdlog.SetOutput(&before)
		defer func() { stdlog.SetOutput(out); stdlog.SetFlags(flags) }()
		restore := httpserve.CatchLog(slog.New(slog.NewTextHandler(&b, nil)))
		for range 1000 {
			stdlog.Print("Unsolicited response")
		}
		restore()
		stdlog.Print("another line")
		if n := strings.Count(b.String(), `level=WARN msg="Unsolicited response"`); n != 10 || strings.Count(b.String(), "\n") != 10 {
			t.Errorf("%d lines: %.200s", n, b.String())
		}
		if s := before.String(); !strings.HasSuffix(s, " another line\n") || strings.Count(s, "\n") != 1 {
			t.Errorf("%q: want the last line with its time", s)
		}
	})
}
