package httplimit

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// While the handler waits for the body, the request leaves the limit of one unit. It is
// back when more has come, and its duration teaches nothing.
func TestASlowUploadLeavesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: -1})
		testrig.Must(t, err)
		works := make(chan time.Duration)
		s := newSite(t, Config{Limiter: lim, BodyTimeout: -1, Units: func(*http.Request) int { return 1 }}, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				return
			}
			part := make([]byte, 1024)
			for {
				if _, err := io.ReadFull(r.Body, part); err != nil {
					return
				}
				time.Sleep(<-works)
			}
		})
		l := newLine(t, serve(t, s.handler))
		l.say(chunked)
		for range 3 {
			synctest.Wait()
			s.get(503, "/") // it has only begun to wait
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for range 3 {
				s.get(200, "/")
			}
			if n := s.Stats().LongLived; n != 1 {
				t.Errorf("%d long-lived: want the upload", n)
			}
			l.say(chunk(1024))
			works <- time.Hour // not a matter of the client
			time.Sleep(time.Hour - time.Second)
			synctest.Wait()
			s.get(503, "/")
			if n := s.Stats().LongLived; n != 0 {
				t.Errorf("%d long-lived while it works: want none", n)
			}
			time.Sleep(time.Second)
		}
		l.say("0\r\n\r\n")
		if status, _, _ := l.hear(); status != 200 {
			t.Error(status)
		}
		synctest.Wait()
		st := s.Stats()
		if g := st.Classes[0].Limiter; st.LongLived != 0 || g.Inflight != 0 || g.Outcomes[weir.Ignored] != 1 {
			t.Errorf("%+v: want nothing left of it, and nothing learnt", st)
		}
	})
}

// As many leave as may. Others keep their units; and so does one that sends all the time.
func TestSlowUploadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(3), Queue: -1})
		testrig.Must(t, err)
		s := newSite(t, Config{Limiter: lim, LongLived: 1, BodyTimeout: -1}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})
		server := serve(t, s.handler)
		for range 2 {
			newLine(t, server).say(chunked)
		}
		quick := newLine(t, server)
		quick.say(chunked)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			quick.say(chunk(1024))
		}
		synctest.Wait()
		if st := s.Stats(); st.LongLived != 1 || st.Classes[0].Limiter.Inflight != 2 {
			t.Errorf("%d long-lived, %d units: want one, and the other two", st.LongLived, st.Classes[0].Limiter.Inflight)
		}
	})
}
