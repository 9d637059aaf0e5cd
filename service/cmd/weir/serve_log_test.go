package main

import (
	"bytes"
	"log/slog"
	"regexp"
	"testing"
	"time"
)

// Each format writes its lines; the source is there if it is asked for.
func TestLogFormats(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  serveLog
		want string
	}{
		{"text", serveLog{}, `time=\S+ level=WARN msg="it broke" a=1 key="x y"`},
		{"json", serveLog{LogFormat: "json"}, `\{"time":"[^"]+","level":"WARN","msg":"it broke","a":1,"key":"x y"\}`},
		{"system-default", serveLog{LogFormat: "system-default"}, `\d{4}/\d\d/\d\d \d\d:\d\d:\d\d WARN it broke a=1 key="x y"`},
		{"system-default with source", serveLog{LogFormat: "system-default", LogIncludesSource: new(true)}, `\S+ \S+ WARN it broke source=\S+serve_log_test.go:\d+ a=1 key="x y"`},
	} {
		var out bytes.Buffer
		log := slog.New(tt.log.handler(&out))
		log.Debug("below the level")
		log.With("a", 1).Warn("it broke", "key", "x y")
		if !regexp.MustCompile("^" + tt.want + "\n$").Match(out.Bytes()) {
			t.Errorf("%s: %s: want %s", tt.name, &out, tt.want)
		}
	}
}

// Lines and groups are as those of package log, but with quotes around attributes that need them.
func TestPlainHandler(t *testing.T) {
	var out bytes.Buffer
	h := newPlainHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})
	at := time.Date(2026, 11, 24, 9, 8, 7, 0, time.UTC)
	for _, h := range []slog.Handler{h, h.WithGroup("http").WithAttrs([]slog.Attr{slog.Int("status", 500)})} {
		r := slog.NewRecord(at, slog.LevelError, "failed", 0)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Error(err)
		}
		r.Add("msg", "again")
		if err := h.Handle(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	const want = `2026/11/24 09:08:07 ERROR failed
2026/11/24 09:08:07 ERROR failed
2026/11/24 09:08:07 ERROR failed http.status=500
2026/11/24 09:08:07 ERROR failed http.status=500 http.msg=again
`
	if out.String() != want {
		t.Errorf("%s: want %s", &out, want)
	}
}

// With --gocc, flags that are not given have the defaults of GoCC.
func TestGoCCDefaults(t *testing.T) {
	c := serveCmd{GoCC: true}
	c.useGoCC()
	limit, queue := c.overrides()
	if c.LogFormat != "json" || !*c.LogIncludesSource || c.address() != ":8080" || limit != c.OverrideMaxRequests || queue != c.OverrideMaxQueue {
		t.Errorf("%+v, %d, %d", c, limit, queue)
	}
	given := serveCmd{GoCC: true, Listen: "127.0.0.1:1"}
	given.LogFormat, given.LogIncludesSource = "text", new(false)
	given.useGoCC()
	if given.LogFormat != "text" || *given.LogIncludesSource || given.address() != "127.0.0.1:1" {
		t.Errorf("%+v", given)
	}
}
