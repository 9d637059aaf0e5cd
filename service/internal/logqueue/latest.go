package logqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-go/weir/rate"
)

// A Latest logs lines about a state, of which the latest matters: ten lines at once and one a
// second. Beyond that, it puts off the latest line, which says how many lines it replaces. It is
// safe for concurrent use.
type Latest struct {
	log   *slog.Logger
	lines *rate.Limiter

	mu       sync.Mutex // guards what follows
	late     *line      // to be logged; nil if there is none
	replaced int        // lines since the last one that was logged
}

type line struct {
	level slog.Level
	text  string
	args  []any
}

// NewLatest returns a Latest that logs to log.
func NewLatest(log *slog.Logger) *Latest {
	return &Latest{log: log, lines: rate.NewLimiter(1, 10)}
}

// Log logs a line, as slog.Logger.Log does.
func (l *Latest) Log(level slog.Level, text string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.late != nil:
		l.replaced++
	case l.lines.Allow():
		l.log.Log(context.Background(), level, text, args...)
		return
	default:
		time.AfterFunc(l.lines.Reserve().Delay(), l.flush)
	}
	l.late = &line{level, text, args}
}

// flush logs the line that was put off.
func (l *Latest) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replaced > 0 {
		l.late.args = append(l.late.args, "lines_left_out", l.replaced)
	}
	l.log.Log(context.Background(), l.late.level, l.late.text, l.late.args...)
	l.late, l.replaced = nil, 0
}
