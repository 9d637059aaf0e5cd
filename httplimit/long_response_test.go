package httplimit

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
)

// A response that goes on after its header leaves the limit of one unit: an event
// stream at once, others after twice as long as ordinary work takes.
func TestALongResponseLeavesTheLimit(t *testing.T) {
	const ordinary = 100 * time.Millisecond
	for _, tt := range []struct {
		rule  string
		write func(http.ResponseWriter)
		after time.Duration // its header; negative: never
	}{
		{"an event stream", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
		}, 0},
		{"a flushed response", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 2 * ordinary},
		{"a large response", func(w http.ResponseWriter) { w.Write(make([]byte, 40_000)) }, 2 * ordinary},
		{"a large text", func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("x", 40_000)) }, 2 * ordinary},
		{"a large copy", func(w http.ResponseWriter) {
			w.(io.ReaderFrom).ReadFrom(struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 40_000))})
		}, 2 * ordinary},
		{"a file", func(w http.ResponseWriter) {
			f, err := os.Open("limit.go")
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.(io.ReaderFrom).ReadFrom(f)
		}, 2 * ordinary},
		{"a small copy", func(w http.ResponseWriter) {
			w.(io.ReaderFrom).ReadFrom(struct{ io.Reader }{strings.NewReader("x")})
		}, -1},
		{"a small response", func(w http.ResponseWriter) { w.Write(make([]byte, 1000)) }, -1},
		{"a small file", func(w http.ResponseWriter) {
			w.(io.ReaderFrom).ReadFrom(io.LimitReader(strings.NewReader("x"), 1))
		}, -1},
		{"none", func(http.ResponseWriter) {}, -1},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: -1})
			testrig.Must(t, err)
			s := newSite(t, Config{Limiter: lim}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(ordinary)
				if r.URL.Path == "/long" {
					tt.write(w)
					time.Sleep(time.Hour)
				}
			})
			s.get(200, "/")
			go s.do(testrig.Request("GET", "/long"))
			time.Sleep(ordinary)
			synctest.Wait()
			if tt.after > 0 {
				time.Sleep(tt.after - 1)
				s.get(503, "/")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
			}
			if tt.after < 0 {
				time.Sleep(30 * time.Minute)
				s.get(503, "/")
				time.Sleep(time.Hour)
				return
			}
			for range 10 {
				s.get(200, "/")
			}
			if n := s.Stats().LongLived; n != 1 {
				t.Errorf("%d long-lived: want one", n)
			}
			if d := lim.Usual(); d != 2*ordinary {
				t.Errorf("work takes at most %v: want %v, for what is learnt ends with the header", d, 2*ordinary)
			}
			time.Sleep(2 * time.Hour)
			st := s.Stats()
			if g := st.Classes[0].Limiter; st.LongLived != 0 || g.Inflight != 0 || g.Outcomes[weir.Success] != 12 || st.Classes[0].Outcomes[weir.Success] != 12 {
				t.Errorf("%+v, %+v: want nothing left of it but a success", st, g)
			}
		})
	}
}

// There are as many as may be. Others keep their units.
func TestLongResponsesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v, LongLived: 2}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			time.Sleep(time.Hour)
		})
		for range 5 {
			go s.do(testrig.Request("GET", "/"))
		}
		synctest.Wait()
		v.WantHeld(t, 3, "beyond the bound")
		if n := s.Stats().LongLived; n != 2 {
			t.Errorf("%d long-lived: want two", n)
		}
		time.Sleep(2 * time.Hour)
		v.WantEnded(t, weir.Success, weir.Success, weir.Success, weir.Success, weir.Success)
		if n := s.Stats().LongLived; n != 0 {
			t.Errorf("%d long-lived: want none", n)
		}
	})
}

// If such requests hold a limit as a whole, others are refused at once, with the true reason,
// until one of them ends.
func TestLongResponsesFillALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(3), Queue: 10, MaxWait: time.Minute})
		testrig.Must(t, err)
		s := newSite(t, Config{Limiter: lim, LongLived: 2, Log: slog.New(slog.NewTextHandler(&log, nil))}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(200)
				<-r.Context().Done()
			}
		})
		leave := make([]context.CancelFunc, 5)
		for i := range leave {
			r := testrig.Request("GET", "/events")
			ctx, cancel := context.WithCancel(r.Context())
			leave[i] = cancel
			go s.do(r.WithContext(ctx))
			synctest.Wait()
		}
		began := time.Now()
		w := s.do(testrig.Request("GET", "/"))
		if w.Code != 503 || w.Header().Get(ReasonHeader) != "long_lived" || time.Since(began) != 0 {
			t.Errorf("%d, %q after %v: want 503, long_lived at once", w.Code, w.Header().Get(ReasonHeader), time.Since(began))
		}
		if n := strings.Count(log.String(), "LongLived is used up"); n != 1 {
			t.Errorf("%d warnings: want one\n%s", n, log.String())
		}
		if st := s.Stats(); st.LongLived != 2 || st.LongFull != 3 || st.Classes[0].Refused[weir.OverLimit] != 1 {
			t.Errorf("%+v: want 2 long-lived, 3 beyond, and a refusal", st)
		}
		leave[0]()
		time.Sleep(2 * time.Second)
		s.get(200, "/")
		if st := s.Stats(); st.LongLived != 2 || st.Classes[0].Limiter.Inflight != 2 {
			t.Errorf("%+v: want the place taken by the next one", st)
		}
		for _, cancel := range leave {
			cancel()
		}
		synctest.Wait()
		if st := s.Stats(); st.LongLived != 0 || st.Classes[0].Limiter.Inflight != 0 {
			t.Errorf("%+v: want none at the end", st)
		}
	})
}

// A router that flushes the response of a handler that has panicked reaches no
// visit.
func TestAFlushAfterAPanic(t *testing.T) {
	var kept http.ResponseWriter
	v := new(testrig.Limiter)
	s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, _ *http.Request) {
		kept = w
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() { _ = recover() }()
		s.get(200, "/")
	}()
	kept.(http.Flusher).Flush()
	v.WantHeld(t, 0, "after the panic")
}

// The client of a stream ends it by leaving: the work is not wasted.
func TestTheEndOfAStreamIsNoWaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Config{PerClass: Auto}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			<-r.Context().Done()
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		s.do(testrig.Request("GET", "/").WithContext(ctx))
		if c := s.Stats().Classes[0]; c.Outcomes[weir.Success] != 1 || c.Wasted != 0 {
			t.Errorf("%+v: want a success", c)
		}
	})
}
