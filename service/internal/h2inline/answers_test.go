package h2inline_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/internal/pipenet"
)

// start sends the settings of a client.
func (c *client) start(settings ...http2.Setting) {
	c.write(frames(func(f *http2.Framer) { _ = f.WriteSettings(settings...) }))
}

// ask sends frames, and returns what the server has answered to all that was sent.
func (c *client) ask(b ...[]byte) *result {
	c.write(bytes.Join(b, nil))
	synctest.Wait()
	return c.result()
}

func widen(id, n uint32) []byte {
	return frames(func(f *http2.Framer) { _ = f.WriteWindowUpdate(id, n) })
}

// alike checks that both answer the requests of one write alike, each on a stream.
func alike(t *testing.T, streams int, requests func(c *client) [][]byte) {
	t.Helper()
	var got [2]*result
	for i := range got {
		synctest.Test(t, func(t *testing.T) {
			c, end := dial(t, newServer(i == 0))
			defer end()
			c.start()
			if got[i] = c.ask(requests(c)...); len(got[i].streams) != streams {
				t.Errorf("%d streams were answered", len(got[i].streams))
			}
		})
	}
	for id, want := range got[0].streams {
		if got := got[1].streams[id]; got != want {
			t.Errorf("stream %d: std %.300q, inline %.300q", id, want, got)
		}
	}
}

// Requests of one write get the same answers from both, on streams that wait for each other or not.
func TestAnswers(t *testing.T) {
	alike(t, 54, func(c *client) (all [][]byte) {
		for _, path := range []string{"/now/a%20b?q=%20", "/later/a?", "/now/empty", "/later/empty", "/now/trailer", "/later/trailer", "/now/9", "/later/9", "/now/4096", "/now/4097", "/now/panic", "/later/panic",
			"HEAD /now/9", "HEAD /now/5000", "HEAD /now/empty", "HEAD /now/trailer", "HEAD /now/", "/now/bodyless", "/later/bodyless", "/soon/a%20b?q=%20", "/soon/empty", "/soon/trailer", "/soon/9", "/soon/5000", "/soon/panic", "/soon/bodyless", "HEAD /soon/5000"} {
			all = append(all, c.get(path, "te", "trailers", "x-a", "1", "x-a", "2"))
			all = append(all, c.request(false, path, "content-type", "application/grpc"), data(c.last, "abc", false, 2), data(c.last, "def", true, 0))
		}
		return all
	})
}

// An answer heeds the header of its request, whatever the one before on its connection was.
func TestHeaders(t *testing.T) {
	headers := [][]string{
		nil, {"accept", "text/plain"}, {"accept", "application/problem+json"}, {"accept", "*/*"}, {"origin", "http://other"},
		{"sec-fetch-site", "cross-site"}, {"sec-fetch-site", "none", "accept", "text/plain"}, {"content-type", "application/grpc"}, {"content-type", "application/json"},
	}
	var got [2]*result
	for i := range got {
		synctest.Test(t, func(t *testing.T) {
			c, end := dial(t, decisions(t, i == 0))
			defer end()
			c.start()
			var all [][]byte
			for n := range 3 * len(headers) * len(headers) { // each after each other
				header := headers[n/3%len(headers)]
				if n%3 > 0 {
					header = headers[n/3/len(headers)]
				}
				path := []string{"/rate/a?n=0", "/rate/a?n=0&n=0", "/rate/a?n=0&canWait=true"}[n%3]
				if all = append(all, c.request(n%2 == 0, path, header...)); n%2 == 1 {
					all = append(all, data(c.last, "", true, 0))
				}
				if n%50 == 49 {
					c.ask(all...)
					all = nil
				}
			}
			got[i] = c.ask(all...)
		})
	}
	if len(got[0].streams) != 3*len(headers)*len(headers) {
		t.Errorf("%d streams were answered", len(got[0].streams))
	}
	for id := range got[0].streams {
		want, _, _ := strings.Cut(got[0].streams[id], "END") // net/http may answer before the body has come, and reset the stream then
		if got, _, _ := strings.Cut(got[1].streams[id], "END"); got != want {
			t.Errorf("stream %d: std %q, inline %q", id, want, got)
		}
	}
}

// A field that may come once is judged by net/http, for requests that are answered at once, too.
func TestFieldTwice(t *testing.T) {
	alike(t, 4, func(c *client) (all [][]byte) {
		for _, path := range []string{"/now/a", "/later/a"} {
			all = append(all, c.get(path, "te", "trailers"), c.get(path, "te", "trailers", "te", "trailers"))
		}
		return all
	})
}

// Requests that differ in little from the one before get the same answers from both.
func TestSimilarRequests(t *testing.T) {
	alike(t, 7*15, func(c *client) (all [][]byte) {
		for _, path := range []string{"/now/a", "/now/abc", "/now/ab", "/now/a?b", "/now/a?b=%20", "/now/a%20b", "/now/b"} {
			body := []byte(nil)
			all = append(all, c.get(path), c.get(path), c.get("PUT "+path), c.get(path, "cookie", "a=b"), c.get("PUT "+path, "cookie", "a=b"), c.get(path), c.get(path, "content-length", "0"), c.get("CONNECT "+path), c.get(path))
			for range 3 { // the bodies come later
				all = append(all, c.request(false, path, "content-length", "3"))
				body = append(body, data(c.last, "abc", true, 0)...)
			}
			all = append(all, c.get(path, "content-length", "0"), body)
			for _, text := range []string{"ab", "abcd"} { // not three bytes, as declared
				all = append(all, c.request(false, path, "content-length", "3"), data(c.last, text, true, 0))
			}
		}
		return all
	})
}

// SETTINGS of the client do not disturb header blocks that net/http is writing, which the race detector would see.
func TestSettingsBetweenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := dial(t, newServer(false))
		defer end()
		set := frames(func(f *http2.Framer) { _ = f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 100}) })
		var all [][]byte
		for range 100 {
			all = append(all, set, c.get("/later/9"), set)
		}
		if n := len(c.ask(all...).streams); n != 100 {
			t.Errorf("%d streams were answered", n)
		}
	})
}

// blocks returns the header blocks that a client got, each with its stream before it.
func (c *client) blocks() (all []string) {
	f := http2.NewFramer(nil, strings.NewReader(c.got.String()))
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return all
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			all = append(all, fmt.Sprint(h.StreamID, " ")+string(h.HeaderBlockFragment()))
		}
	}
}

// Fields that come again take a byte, until the client makes its table smaller or another server answers, too. The next
// block, which can be a trailer, tells the client then that the table is empty.
func TestClientTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := dial(t, newServer(false))
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 2})
		ask := func(id uint32, b ...[]byte) string {
			if r := c.ask(b...); r.failed() || len(r.streams[id]) == 0 {
				t.Fatalf("stream %d: %q, %v", id, r.streams[id], r.goAway)
			}
			blocks := c.blocks()
			_, block, _ := strings.Cut(blocks[len(blocks)-1], " ")
			return block
		}
		first, second, third := ask(1, c.get("/now/2")), ask(3, c.get("/now/2")), ask(5, c.get("/now/2"))
		if len(third) >= len(second) || len(third) >= len(first) || first[0]>>5 != 1 || len(first) < 4 {
			t.Errorf("blocks of %d, %d and %d bytes, the first begins with %#x", len(first), len(second), len(third), first[0])
		}
		ask(7, c.request(false, "/now/trailer"), data(c.last, "abc", true, 0)) // the client takes two bytes
		c.start(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1000})
		trailer := ask(7, widen(7, 1))
		if !strings.Contains(trailer, "grpc-status") || trailer[0] != 0x20 {
			t.Errorf("the trailer is %q", trailer)
		}
		if block := ask(9, c.get("/now/2")); block[0] == 0x20 || len(block) < len(first)-3 {
			t.Errorf("afterwards %q", block)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, end := dial(t, newServer(false))
		defer end()
		c.start()
		c.ask(c.get("/now/2"), c.get("/now/2"), c.get("/now/2"))
		c.ask(c.get("/later/slow"), c.get("/now/2"))
		if blocks := c.blocks(); blocks[3][:3] != "9 \x20" {
			t.Errorf("the first block after a request to another server: %q", blocks[3])
		}
		time.Sleep(2 * time.Second)
		c.ask(c.get("/later/2"), c.get("/now/2"))
		for id, text := range c.result().streams {
			if want := c.result().streams[1]; id != 7 && text != want {
				t.Errorf("stream %d: %q: want %q", id, text, want)
			}
		}
		blocks := c.blocks()
		if len(blocks) != 7 || len(blocks[2]) >= len(blocks[1]) {
			t.Fatalf("%q", blocks)
		}
		for _, block := range blocks[3:] {
			if id, _, _ := strings.Cut(block, " "); (id == "9" || id == "13") != strings.Contains(block, "x-first") { // net/http uses Huffman's code
				t.Errorf("after another server has answered: %q", block)
			}
		}
	})
}

// An answer waits for the windows of the stream and of the connection, also if they are zero or
// negative, and is whole then.
func TestWindows(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		r := c.ask(c.get("/now/9"), c.get("/later/9"), c.get("/now/70000"), c.get("/later/empty"))
		if text := r.streams[1] + r.streams[3]; strings.Contains(text, "x\n\nx") || strings.Contains(text, "END") {
			t.Errorf("DATA beyond a window of 0: %q", text)
		}
		if !strings.HasSuffix(r.streams[7], "END") {
			t.Errorf("an answer without DATA: %q", r.streams[7])
		}
		r = c.ask(widen(1, 4), widen(3, 4))
		for _, id := range []uint32{1, 3} {
			if !strings.HasSuffix(r.streams[id], "\n\nxxxx") {
				t.Errorf("stream %d got %q", id, r.streams[id])
			}
		}
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
		r = c.ask()
		if n := strings.Count(r.streams[5], "x"); n > 65535 {
			t.Errorf("%d bytes of DATA beyond the window of the connection", n)
		}
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // negative for 5
		r = c.ask(widen(0, 100_000))
		if n := strings.Count(r.streams[5], "x"); n > 65535 {
			t.Errorf("%d bytes of DATA beyond a negative window", n)
		}
		r = c.ask(widen(3, 9), widen(5, 80_000))
		for id, n := range map[uint32]int{1: 9, 3: 9, 5: 70000} {
			if got := strings.Count(strings.SplitN(r.streams[id], "\n\n", 2)[1], "x"); got != n || !strings.HasSuffix(r.streams[id], "END") {
				t.Errorf("stream %d has %d bytes, want %d", id, got, n)
			}
		}
		if r.failed() {
			t.Errorf("the connection failed: %v", r.goAway)
		}
	})
}

// Answers that each fit in a frame and in the window of their stream wait for the window of the connection.
func TestConnectionWindow(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		all := [][]byte{c.get("/now/20000")} // takes two frames
		for range 50 {
			all = append(all, c.get("/now/1000"))
		}
		if r := c.ask(all...); r.used != 65535 {
			t.Errorf("%d bytes of DATA for a window of 65535", r.used)
		}
		if r := c.ask(widen(0, 10_000)); r.used != 70_000 || r.failed() {
			t.Errorf("%d bytes of DATA, want 70000: %v", r.used, r.goAway)
		}
	})
}

// Fields that take little in the client's frames, and much in those for the relay, are relayed in parts.
func TestManyFieldsToRelay(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		large := strings.Repeat("v", 3900)
		var all [][]byte
		for range 200 {
			all = append(all, c.get("/later/9", "x-large", large, "x-large", large))
		}
		r := c.ask(all...)
		if len(r.streams) != 200 || r.failed() {
			t.Fatalf("%d streams were answered; %v", len(r.streams), r.goAway)
		}
		for id, text := range r.streams {
			if !strings.HasSuffix(text, "\n\nxxxxxxxxxEND") {
				t.Fatalf("stream %d got %.100q", id, text)
			}
		}
	})
}

// A stream with last DATA that waits for the window of the connection can be widened.
func TestWidenAnswered(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		c.ask(c.get("/later/60000"), c.get("/later/60000"))
		c.ask(widen(3, 1<<20))
		r := c.ask(widen(0, 100_000))
		if text := r.streams[3]; !strings.HasSuffix(text, strings.Repeat("x", 60_000)+"END") {
			t.Errorf("%d bytes, ends %q", strings.Count(text, "x"), text[max(len(text)-30, 0):])
		}
	})
}

// Answers that wait for windows are bounded as the streams of net/http are.
func TestBlockedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := dial(t, newServer(false))
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.write(frames(func(f *http2.Framer) { _ = f.WriteSettingsAck() }))
		for range 260 {
			c.write(c.get("/now/9"))
		}
		r, refused := c.ask(), 0
		for _, text := range r.streams {
			if strings.Contains(text, "RST PROTOCOL_ERROR") {
				refused++
			}
		}
		if refused != 10 || r.failed() {
			t.Errorf("%d of 260 streams were refused, the connection %v", refused, r.goAway)
		}
	})
}

// A request that is relayed only because its body comes late has the window that the client has given it.
func TestWidenBeforeTheBody(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		c.ask(c.request(false, "/now/70000"), widen(1, 10_000), widen(0, 100_000))
		time.Sleep(time.Second)
		r := c.ask(data(1, "abc", true, 0))
		if text := r.streams[1]; !strings.HasSuffix(text, strings.Repeat("x", 70_000)+"END") {
			t.Errorf("%d bytes, ends %q", strings.Count(text, "x"), text[max(len(text)-30, 0):])
		}
	})
}

// An answer that the client does not take in time ends with an error.
func TestBlockedEnd(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5})
		c.ask(c.get("/now/9"), c.get("/later/9"), c.get("/later/90000"))
		time.Sleep(timeout - time.Second)
		c.ask(widen(1, 1))
		time.Sleep(2 * time.Second)
		r := c.ask(c.get("/now/5"))
		for _, id := range []uint32{1, 3, 5} {
			if text := r.streams[id]; !strings.Contains(text, "RST INTERNAL_ERROR") {
				t.Errorf("stream %d got %q", id, text)
			}
		}
		if text := r.streams[7]; r.failed() || !strings.HasSuffix(text, "\n\nxxxxxEND") {
			t.Errorf("afterwards: %q, %v", text, r.goAway)
		}
	})
}

// Each body belongs to its own request, in whatever order bodies come.
func TestManyBodies(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		long := "/now/" + strings.Repeat("l", 3000)
		c.ask(c.request(false, "/now/a"), c.request(false, long), data(1, "A", true, 0), data(3, "L", true, 0),
			c.request(false, "/now/b"), c.request(false, "/now/c"), c.request(false, "/now/c"), data(9, "C2", true, 0), data(5, "B", true, 0), data(7, "C1", true, 0),
			c.request(false, "/now/d"), c.get("/now/e"), data(11, "D", true, 0),
			c.request(false, "/now/f"), c.request(false, "/now/g"), data(15, "F", true, 0), data(17, "G", true, 0))
		r := c.result()
		for id, want := range map[uint32][2]string{1: {"/now/a", "A"}, 3: {long, "L"}, 5: {"/now/b", "B"}, 7: {"/now/c", "C1"}, 9: {"/now/c", "C2"}, 11: {"/now/d", "D"}, 13: {"/now/e", ""}, 15: {"/now/f", "F"}, 17: {"/now/g", "G"}} {
			if text := r.streams[id]; !strings.Contains(text, strconv.Quote(want[0])) || !strings.HasSuffix(text, strconv.Quote(want[1])+"END") {
				t.Errorf("stream %d: %.200q: want %.20q and %q", id, text, want[0], want[1])
			}
		}
	})
}

// A body that does not come in time is the http.Server's to wait for.
func TestLateBody(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		c, end := dial(t, srv)
		defer end()
		c.start()
		c.write(c.request(false, "/now/a"))
		c.write(data(1, "abc", false, 0))
		time.Sleep(time.Second)
		c.write(c.get("/now/b"))
		c.write(data(1, "def", true, 0))
		if r := c.ask(); !strings.Contains(r.streams[1], `"abcdef"END`) || !strings.HasSuffix(r.streams[3], "END") {
			t.Errorf("got %v", r.streams)
		}
	})
}

// Connections end at the same time as with net/http.
func TestTimes(t *testing.T) {
	both(t, func(t *testing.T, srv service) {
		for name, tt := range map[string]struct {
			begin func(c *client)
			least time.Duration
			most  time.Duration
		}{
			"no SETTINGS":                {func(*client) {}, 2 * time.Second, 2 * time.Second},
			"no answer to a PING":        {func(c *client) { c.start() }, 70 * time.Second, 70 * time.Second},
			"half a frame":               {func(c *client) { c.start(); c.write([]byte{0, 0, 8, 6}) }, 70 * time.Second, 70 * time.Second},
			"idle after an answer":       {func(c *client) { c.start(); c.write(c.get("/now/a")); go c.pong() }, 120 * time.Second, 122 * time.Second},
			"idle after a relayed one":   {func(c *client) { c.start(); c.write(c.get("/later/a")); go c.pong() }, 120 * time.Second, 122 * time.Second},
			"a frame that is too long":   {func(c *client) { c.start(); c.write([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1}) }, time.Second, time.Second},
			"an answer to Connection":    {func(c *client) { c.start(); c.write(c.get("/now/close")) }, time.Second, 2 * time.Second},
			"idle after a parked one":    {func(c *client) { c.start(); c.write(c.get("/soon/slow")); go c.pong() }, 121 * time.Second, 123 * time.Second},
			"a parked answer to it":      {func(c *client) { c.start(); c.write(c.get("/soon/close")) }, time.Second, 2 * time.Second},
			"a relayed answer to it":     {func(c *client) { c.start(); c.write(c.get("/later/close")) }, time.Second, time.Second},
			"a GOAWAY of the client":     {func(c *client) { c.start(); c.write(goAway) }, time.Second, time.Second},
			"the preface, but no client": {func(c *client) { _ = c.nc.Close() }, 0, 0},
		} {
			c, end := dial(t, newServer(strings.HasSuffix(t.Name(), "std")))
			begun := time.Now()
			tt.begin(c)
			<-c.ended
			if took := time.Since(begun); took < tt.least || took > tt.most {
				t.Errorf("%s: closed after %v, want %v to %v", name, took, tt.least, tt.most)
			}
			end()
		}
	})
}

func reset(id uint32) []byte {
	return frames(func(f *http2.Framer) { _ = f.WriteRSTStream(id, http2.ErrCodeCancel) })
}

var goAway = frames(func(f *http2.Framer) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) })

// pong answers PINGs, until the connection ends.
func (c *client) pong() {
	for {
		select {
		case <-c.ended:
			return
		case <-time.After(time.Second):
			c.write(frames(func(f *http2.Framer) { _ = f.WritePing(true, [8]byte{}) }))
		}
	}
}

// Shutdown asks clients to leave, answers what has begun, and waits for that.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(false)
		c, end := dial(t, srv)
		defer end()
		c.start()
		c.ask(c.get("/now/a"), c.request(false, "/later/b"))
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(t.Context()) }()
		r := c.ask()
		if len(r.goAway) != 1 || r.goAway[0] != http2.ErrCodeNo || r.closed {
			t.Fatalf("GOAWAY %v, closed %v", r.goAway, r.closed)
		}
		r = c.ask(c.get("/now/unaware"), data(3, "x", true, 0)) // sent before the client has read GOAWAY
		if !strings.HasSuffix(r.streams[3], "END") || !strings.HasSuffix(r.streams[5], "END") {
			t.Errorf("after the first GOAWAY: %v", r.streams)
		}
		c.write(frames(func(f *http2.Framer) { _ = f.WritePing(true, [8]byte([]byte("weir bye"))) }))
		if r = c.ask(c.get("/now/late")); len(r.goAway) != 2 || r.goAway[1] != http2.ErrCodeNo || r.streams[7] != "" {
			t.Errorf("after the PING: GOAWAY %v, %v", r.goAway, r.streams)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-c.ended
	})
}

// Shutdown ends with its context, and Close ends the rest.
func TestShutdownTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(false)
		c, end := dial(t, srv)
		defer end()
		c.start()
		c.ask(c.get("/later/wait"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// A client that does not read is left after the time that it has for that.
func TestSlowReader(t *testing.T) {
	settings := string(frames(func(f *http2.Framer) { _ = f.WriteSettings() }))
	for name, sent := range map[string]struct{ first, again string }{
		"HTTP/2":   {http2.ClientPreface, settings}, // the SETTINGS of the server are not read
		"HTTP/1.1": {"", requests1[0]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln, srv := pipenet.Listen(), newServer(false)
				defer srv.Close()
				go func() { _ = srv.Serve(ln) }()
				nc, err := ln.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				_, _ = io.WriteString(nc, sent.first)
				for err == nil {
					_, err = io.WriteString(nc, sent.again)
				}
				if took := time.Since(begun); took < 10*time.Second || took > 13*time.Second {
					t.Errorf("closed after %v", took)
				}
				_ = ln.Close()
			})
		})
	}
}

// The ConnState of the http.Server sees all connections that are in use.
func TestConnState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []http.ConnState
		hs := newHTTP()
		hs.ConnState = func(_ net.Conn, s http.ConnState) { states = append(states, s) }
		srv := newInline(hs)
		c, end := dial(t, srv)
		c.start()
		time.Sleep(2 * time.Second)
		for _, step := range []struct {
			path string
			want string
		}{{"/now/a", "active idle"}, {"/now/a", ""}, {"/later/wait", "active"}, {"/now/a", ""}, {"/soon/wait", ""}} {
			states = nil
			c.ask(c.get(step.path))
			var got []string
			for _, s := range states {
				got = append(got, s.String())
			}
			if text := strings.Join(got, " "); text != step.want {
				t.Errorf("%s: %q, want %q", step.path, text, step.want)
			}
		}
		c.ask(reset(5), reset(9))
		if last := states[len(states)-1]; last != http.StateIdle {
			t.Errorf("after a reset: %v", last)
		}
		end()
	})
}
