package h2inline_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A script is the bytes that a fuzzer chooses frames with.
type script []byte

// next returns a number below n.
func (s *script) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	v := int((*s)[0])
	*s = (*s)[1:]
	return v % n
}

// pick returns one of a list.
func pick[T any](s *script, list ...T) T { return list[s.next(len(list))] }

// odd has fields that may make a request invalid, or not.
var odd = [][]string{
	{}, {}, {}, {"accept", "text/plain"}, {"te", "trailers"}, {"te", "gzip"}, {"content-length", "3"}, {"content-length", "x"}, {"content-length", "0"},
	{"cookie", "a=1", "cookie", "b=2"}, {"host", "other"}, {"connection", "close"}, {"X-Upper", "1"}, {"x-bad", "a\nb"}, {"", "x"},
	{":status", "200"}, {":path", "/now/again"}, {"expect", "100-continue"}, {"trailer", "x-t"}, {"x-long", string(bytes.Repeat([]byte("y"), 9000))},
	{"content-length", "3", "content-length", "3"}, {"grpc-timeout", "1S"}, {"user-agent", "test"},
}

var paths = []string{
	"/now/a", "/later/a", "/now/a?x=%20", "/now/a%2Fb", "/now/empty", "/later/empty", "/now/trailer", "/later/trailer", "/now/panic",
	"/now/70000", "/later/70000", "/now/3", "", "*", "now/a", "/now/a b", "//now/a", "/now/\x7f", "/now/%zz", "/later/3",
	"HEAD /now/3", "HEAD /now/70000", "HEAD /later/3", "/now/bodyless", "GET /now/a",
	"/soon/a", "/soon/a?x=%20", "/soon/empty", "/soon/trailer", "/soon/panic", "/soon/70000", "/soon/3", "HEAD /soon/70000", "/soon/wait", "/soon/wait",
}

// op returns the next frames of a client.
func (c *client) op(s *script) []byte {
	id := uint32(max(int(c.last)-2*s.next(4), 0))
	switch s.next(14) {
	case 0, 1, 2:
		return c.get(pick(s, paths...), pick(s, odd...)...)
	case 3, 4:
		b := c.request(false, pick(s, paths...), pick(s, odd...)...)
		if s.next(2) == 0 {
			b = append(b, data(c.last, pick(s, "", "abc", "abcd"), pick(s, true, false), byte(s.next(3)))...)
		}
		return b
	case 5:
		return data(id, pick(s, "", "abc", string(make([]byte, 16000))), pick(s, true, false), byte(s.next(3)))
	case 6:
		return frames(func(f *http2.Framer) { _ = f.WriteRSTStream(id, http2.ErrCodeCancel) })
	case 7:
		n := pick[uint32](s, 1, 10, 70000, 1<<31-1, 0)
		return frames(func(f *http2.Framer) { _ = f.WriteWindowUpdate(pick(s, 0, id), n) })
	case 8:
		set := http2.Setting{ID: pick(s, http2.SettingInitialWindowSize, http2.SettingHeaderTableSize, http2.SettingEnablePush, 99), Val: pick[uint32](s, 0, 1, 10, 65535, 1<<31-1, 1<<31)}
		return frames(func(f *http2.Framer) { _ = f.WriteSettings(set) })
	case 9:
		return frames(func(f *http2.Framer) { _ = f.WritePing(pick(s, false, true), [8]byte{1}) })
	case 10:
		return frames(func(f *http2.Framer) {
			_ = f.WritePriority(id, http2.PriorityParam{StreamDep: pick(s, 0, id)})
		})
	case 11:
		b := c.get(pick(s, paths...), pick(s, odd...)...)
		return split(b, s)
	case 12: // trailers
		block := c.fields(pick(s, "x-t", ":path", "X"), "1")
		return frames(func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: pick(s, true, false), EndHeaders: true})
		})
	default:
		return frames(func(f *http2.Framer) {
			payload := make([]byte, s.next(20))
			_ = f.WriteRawFrame(http2.FrameType(s.next(12)), http2.Flags(s.next(64)), pick(s, 0, id, id+2), payload)
		})
	}
}

func data(id uint32, text string, ends bool, pad byte) []byte {
	return frames(func(f *http2.Framer) {
		if pad == 0 {
			_ = f.WriteData(id, ends, []byte(text))
		} else {
			_ = f.WriteDataPadded(id, ends, []byte(text), make([]byte, pad))
		}
	})
}

// split splits HEADERS into CONTINUATION frames.
func split(b []byte, s *script) []byte {
	id, block := binary.BigEndian.Uint32(b[5:]), b[9:]
	at := min(1+s.next(50), len(block))
	return frames(func(f *http2.Framer) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:at], EndStream: true})
		_ = f.WriteContinuation(id, s.next(4) > 0, block[at:])
	})
}

// play sends a script to a server, frame by frame, or at once, and returns what the client got.
func play(t *testing.T, srv service, s script, atOnce bool) *result {
	c, end := dial(t, srv)
	defer end()
	c.start()
	var all []byte
	for len(s) > 0 {
		b := c.op(&s)
		if atOnce {
			all = append(all, b...)
			continue
		}
		c.write(b)
		synctest.Wait()
	}
	c.write(all)
	synctest.Wait()
	return c.result()
}

// describe lists the frames of a script.
func describe(s script) (text string) {
	c := &client{}
	c.encoder = hpack.NewEncoder(&c.block)
	for len(s) > 0 {
		f := http2.NewFramer(nil, bytes.NewReader(c.op(&s)))
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				text += fmt.Sprintln(err)
				break
			}
			text += fmt.Sprintf("%v\n", frame)
		}
	}
	return text
}

var xs = regexp.MustCompile("x{9,}")

// compare compares what the two servers answer to a script.
func compare(t *testing.T, s script) {
	var got [2]*result
	for i := range got {
		synctest.Test(t, func(t *testing.T) { got[i] = play(t, newServer(i == 0), slices.Clone(s), false) })
	}
	std, inline := got[0], got[1]
	defer func() {
		if t.Failed() {
			t.Logf("%vstd %v\ninline %v", describe(s), std.streams, inline.streams)
		}
	}()
	for _, r := range got {
		for id, text := range r.streams {
			// Whether a reset follows the end depends on when the rest of the request comes.
			text, rest, reset := strings.Cut(strings.SplitAfter(text, "END")[0], "RST ")
			if reset {
				text += "RST " + strings.Split(rest, "RST ")[0]
			}
			r.streams[id] = xs.ReplaceAllStringFunc(text, func(x string) string { return fmt.Sprintf("%d x", len(x)) })
		}
	}
	if std.failed() != inline.failed() {
		if len(std.goAway) > 0 && len(inline.goAway) > 0 {
			return // net/http does not send a second GOAWAY
		}
		// net/http ends a connection as soon as an invalid field has come, this package when the whole block has.
		// And for net/http, a stream with an invalid field is one that has not begun, so that any further frame of it is a mistake.
		if strings.Contains(describe(s), "CONTINUATION") || slices.Contains(slices.Collect(maps.Values(std.streams)), "RST PROTOCOL_ERROR") {
			return
		}
	}
	if std.failed() != inline.failed() {
		t.Errorf("std ended with %v (closed %v), inline with %v (closed %v)", std.goAway, std.closed, inline.goAway, inline.closed)
	}
	if std.failed() {
		return
	}
	// Which stream gets the last bytes of the connection's window is up to the server.
	if std.used >= 65535 && inline.used >= 65535 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(std.streams)) {
		// One that came after GOAWAY is reset by net/http if it is not valid.
		ignored := len(std.goAway) > 0 && inline.streams[id] == ""
		// One that is not valid, and one too many, is reset for either.
		invalid := std.streams[id] == "RST PROTOCOL_ERROR" && inline.streams[id] == "RST REFUSED_STREAM"
		if std.streams[id] != inline.streams[id] && !ignored && !invalid {
			t.Errorf("stream %d: std\n%.500q\ninline\n%.500q", id, std.streams[id], inline.streams[id])
		}
	}
	for id, text := range inline.streams {
		if std.streams[id] == "" {
			t.Errorf("stream %d: inline answers %.300q, std nothing", id, text)
		}
	}
	if len(std.goAway) > 0 { // net/http may not answer PING and SETTINGS then
		return
	}
	if a, b := set(std.others), set(inline.others); !maps.Equal(a, b) { // net/http may acknowledge two SETTINGS at once
		t.Errorf("std %v, inline %v", a, b)
	}
}

func set(list []string) map[string]bool {
	in := map[string]bool{}
	for _, one := range list {
		in[one] = true
	}
	return in
}

func FuzzDifferential(f *testing.F) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := make([]byte, 5+r.IntN(60))
		for i := range s {
			s[i] = byte(r.Uint32())
		}
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s []byte) { compare(t, s) })
}
