package httpapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// The times of some requests are counted, but not of waits, nor of requests without a key.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, httpapi.Config{}, allKeys(1, time.Second, config.GCRA))
		measured := func() (n uint64) {
			for _, some := range s.Stats().Took {
				n += some
			}
			return n
		}
		for range 1000 {
			s.ask("GET", "/healthz", "")
		}
		if n := measured(); n != 0 {
			t.Errorf("%d of requests without a key are measured", n)
		}
		for range 1000 {
			s.ask("POST", "/rate/a?canWait=true", "")
		}
		if st := s.Stats(); st.TookSum >= time.Second {
			t.Errorf("%v: waits are measured", st.TookSum)
		}
		before := measured()
		for range 10_000 {
			s.ask("POST", "/rate/b", "")
		}
		if n := measured() - before; n < 10_000/64 {
			t.Errorf("%d of 10000 are measured: want one in 64 at least", n)
		}
	})
}
