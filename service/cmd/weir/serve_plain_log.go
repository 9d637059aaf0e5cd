package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
)

// A plainHandler writes lines as package log of Go does by default: the time, the level and the
// message, and then the attributes. It is safe for concurrent use.
type plainHandler struct {
	*plainLines
	attributes slog.Handler // writes the attributes to plainLines.buf
}

// plainLines is the output of a plainHandler and of handlers with more attributes.
type plainLines struct {
	mu  sync.Mutex // guards buf and out
	buf bytes.Buffer
	out io.Writer
}

func newPlainHandler(out io.Writer, opts *slog.HandlerOptions) slog.Handler {
	lines := &plainLines{out: out}
	attributes := *opts
	attributes.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{} // at the beginning of the line
		}
		return a
	}
	return plainHandler{lines, slog.NewTextHandler(&lines.buf, &attributes)}
}

func (h plainHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.attributes.Enabled(ctx, level)
}

func (h plainHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Reset()
	h.buf.WriteString(r.Time.Format("2006/01/02 15:04:05 ") + r.Level.String() + " " + r.Message + " ")
	if err := h.attributes.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.out.Write(append(bytes.TrimRight(h.buf.Bytes(), " \n"), '\n'))
	return err
}

func (h plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return plainHandler{h.plainLines, h.attributes.WithAttrs(attrs)}
}

func (h plainHandler) WithGroup(name string) slog.Handler {
	return plainHandler{h.plainLines, h.attributes.WithGroup(name)}
}
