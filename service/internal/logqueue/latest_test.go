package logqueue_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/logqueue"
)

// Of a storm of lines, the first ones and the last one of each second are logged.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		l := logqueue.NewLatest(slog.New(slog.NewTextHandler(&b, nil)))
		lines := func() []string {
			synctest.Wait()
			all := strings.Split(strings.TrimSpace(b.String()), "\n")
			b.Reset()
			return all
		}
		for i := range 1000 { // in 10 s
			l.Log(slog.LevelInfo, "reloaded", "n", i)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		all := lines()
		if last := all[len(all)-1]; len(all) > 22 || !strings.Contains(last, "n=999 lines_left_out=") || !strings.Contains(all[9], "n=9") || strings.Contains(all[9], "left_out") {
			t.Errorf("%d lines, the last one is %s", len(all), all[len(all)-1])
		}
		time.Sleep(time.Minute)
		l.Log(slog.LevelError, "failed")
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], "level=ERROR msg=failed") || strings.Contains(all[0], "left_out") {
			t.Errorf("%q: want the line", all)
		}
	})
}
