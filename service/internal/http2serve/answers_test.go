package http2serve_test

import (
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// start sends the settings of a client.
func (c *client) start(settings ...http2.Setting) {
	c.write(frames(func(f *http2.Framer) { _ = f.WriteSettings(settings...) }))
}

func TestAnswers(t *testing.T) {
	both(t, func(t *testing.T, srv server) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		for _, path := range []string{"/now/a%20b?q=%20", "/later/a?", "/now/empty", "/later/empty", "/now/trailer", "/later/trailer", "/now/9", "/later/9", "/now/panic", "/later/panic"} {
			c.write(c.get(path, "te", "trailers", "x-a", "1", "x-a", "2"))
		}
		synctest.Wait()
		r := c.result()
		for id := uint32(1); id <= c.last; id += 2 {
			t.Logf("%d: %s", id, r.streams[id])
			if r.streams[id] == "" {
				t.Errorf("no answer of stream %d", id)
			}
		}
	})
}
