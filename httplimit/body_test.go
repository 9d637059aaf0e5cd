package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
)

func post(length int, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

// A handler that answers with how its body went.
func echoLength(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprint(w, n, " ", errors.Is(err, os.ErrDeadlineExceeded))
}

// A hundred clients that send a byte a minute hold no unit.
func TestASmallBodyTakesNoUnitUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v}, echoLength)
		w := serve(t, s.handler)
		slow := make([]*line, 100)
		for i := range slow {
			slow[i] = newLine(t, w)
			slow[i].say(post(10, "12345"))
		}
		v.WantHeld(t, 0, "while the bodies come")
		fast := newLine(t, w)
		fast.say(post(5, "12345"))
		if status, _, body := fast.hear(); status != 200 || body != "5 false" {
			t.Errorf("%d %q", status, body)
		}
		time.Sleep(10 * time.Second)
		slow[0].say("67890")
		if status, _, body := slow[0].hear(); status != 200 || body != "10 false" {
			t.Errorf("%d %q: the body has come after all", status, body)
		}
		time.Sleep(time.Minute)
		for _, l := range slow[1:] {
			if status, h, _ := l.hear(); status != 408 || h.Get(ReasonHeader) != "client_timeout" {
				t.Errorf("%d %v", status, h)
			}
			if _, err := l.in.Peek(1); err != io.EOF {
				t.Errorf("%v: want the connection closed, on which the rest of the body may come", err)
			}
		}
		s.ran(2)
		v.WantEnded(t, weir.Success, weir.Success)
		if n := s.counts(""); n.admitted != 2 || n.refused != 99 {
			t.Errorf("%+v", n)
		}
		if n := s.buffered.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// A body that breaks off is the client's fault; the tokens are given back.
func TestASmallBodyThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, q := new(testrig.Limiter), allow(t, "q", 3)
		s := newSite(t, Config{Rules: []Rule{q.Rule}, Limiter: v}, echoLength)
		l := newLine(t, serve(t, s.handler))
		l.say(post(10, "12345"))
		q.left(t, "", 2, "while it comes")
		l.conn.Close()
		synctest.Wait()
		s.ran(0)
		q.left(t, "", 3, "after the client has left")
		v.WantEnded(t)
		if n := s.buffered.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
		if n := s.counts(""); n.refused != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// A panic of a function of Config does not keep the memory of a body.
func TestAPanicGivesTheMemoryOfABodyBack(t *testing.T) {
	s := newSite(t, Config{Limiter: new(testrig.Limiter), Units: func(*http.Request) int { panic("units") }}, nil)
	func() {
		defer func() { _ = recover() }()
		s.do(httptest.NewRequest("POST", "/", strings.NewReader("12345")))
		t.Error("want a panic")
	}()
	if n := s.buffered.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// What is received first is bounded; what is beyond is read by the handler.
func TestWhichBodiesAreReceivedFirst(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		cfg    Config
		length int
		taken  int64 // of MaxBodyFirst
		want   bool
	}{
		{"small", Config{}, 1, 0, true},
		{"as large as may be", Config{}, BodyFirst, 0, true},
		{"larger", Config{}, BodyFirst + 1, 0, false},
		{"all but a byte of the memory is taken", Config{}, 10, MaxBodyFirst - 1, true},
		{"all of it is taken", Config{}, 10, MaxBodyFirst, false},
		{"without a time-out", Config{BodyTimeout: -1}, 1, 0, true},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(testrig.Limiter)
			tt.cfg.Limiter = v
			s := newSite(t, tt.cfg, func(w http.ResponseWriter, r *http.Request) {
				if b, err := io.ReadAll(r.Body); err != nil || len(b) != tt.length {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			})
			s.buffered.Store(tt.taken)
			l := newLine(t, serve(t, s.handler))
			l.say(post(tt.length, ""))
			held := 1
			if tt.want {
				held = 0
			}
			v.WantHeld(t, held, "before the body has come")
			l.say(strings.Repeat("x", tt.length))
			if status, _, _ := l.hear(); status != 200 {
				t.Errorf("%d", status)
			}
			if n := s.buffered.Load(); n != tt.taken {
				t.Errorf("%d bytes are counted: want %d", n, tt.taken)
			}
		})
	}
}

// There is no unit to be saved where there is no limiter: the handler has the
// body as it comes.
func TestWithoutALimiterABodyIsTheHandlersBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := allow(t, "q", 3)
		s := newSite(t, Config{Rules: []Rule{q.Rule}}, echoLength)
		l := newLine(t, serve(t, s.handler))
		l.say(post(5, "1"))
		s.ran(1)
		time.Sleep(time.Hour)
		l.say("2345")
		if status, _, body := l.hear(); status != 200 || body != "5 false" {
			t.Errorf("%d %q", status, body)
		}
	})
}

// A body without a length, or a large one, holds a unit while it comes: so its
// time is bounded.
func TestABodyThatTricklesGivesItsUnitBack(t *testing.T) {
	for _, tt := range []struct {
		rule string
		head string
		part string
		want time.Duration // 10 s, and a second given back for each KiB
		read string
	}{
		{"nothing comes", chunked, "", 10 * time.Second, "0 true"},
		{"a byte a second", chunked, chunk(1), 10010 * time.Millisecond, "11 true"},
		{"256 bytes a second", chunked, chunk(256), 13 * time.Second, "3328 true"},
		{"much at once, then nothing", chunked + chunk(64<<10), "", 10 * time.Second, "65536 true"},
		{"with a length", post(1<<20, ""), "x", 10010 * time.Millisecond, "11 true"},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(testrig.Limiter)
			began := time.Now()
			var took time.Duration
			var read string
			s := newSite(t, Config{Limiter: v, BodyTimeout: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				took, read = time.Since(began), fmt.Sprint(n, " ", errors.Is(err, os.ErrDeadlineExceeded))
			})
			l := newLine(t, serve(t, s.handler))
			l.say(tt.head)
			for range 25 {
				if tt.part != "" {
					l.say(tt.part)
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
			v.WantEnded(t, weir.Ignored)
			if took.Round(10*time.Millisecond) != tt.want || read != tt.read {
				t.Errorf("%s after %v: want %s after %v", read, took, tt.read, tt.want)
			}
		})
	}
}

// A client that sends a KiB a second may go on for ever. Its time teaches the limit
// nothing.
func TestABodyThatFlowsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v, BodyTimeout: 10 * time.Second}, echoLength)
		l := newLine(t, serve(t, s.handler))
		l.say(chunked)
		for range 1000 {
			l.say(chunk(1024))
			time.Sleep(time.Second)
		}
		v.WantHeld(t, 1, "while it comes")
		l.say("0\r\n\r\n")
		if status, _, body := l.hear(); status != 200 || body != "1024000 false" {
			t.Errorf("%d %q", status, body)
		}
		v.WantEnded(t, weir.Ignored)
	})
}

// Without a bound, or with the server's own, there is none of ours.
func TestABodyWithoutATimeout(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		timeout time.Duration
		server  time.Duration
		want    time.Duration
	}{
		{"none", -1, 0, time.Hour},
		{"the server's, which is longer", time.Second, time.Minute, time.Minute},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(testrig.Limiter)
			s := newSite(t, Config{Limiter: v, BodyTimeout: tt.timeout}, echoLength)
			l := newLine(t, testrig.Serve(t, &http.Server{Handler: s.handler, ReadTimeout: tt.server}))
			l.say(chunked)
			time.Sleep(tt.want - 1)
			synctest.Wait()
			v.WantHeld(t, 1, "for as long as there is time")
			l.say("0\r\n\r\n")
			if status, _, body := l.hear(); status != 200 || body != "0 false" {
				t.Errorf("%d %q", status, body)
			}
		})
	}
}
