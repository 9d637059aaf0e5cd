package pressure_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/pressuretest"
	"github.com/weir-go/weir/pressure"
)

// Behind httplimit, the priority of a request's header decides.
func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := pressuretest.New(t)
		g, err := pressure.New(pressure.Config{Max: 0.4, MaxCritical: -1, Path: k.Path})
		testrig.Must(t, err)
		m, err := httplimit.New(httplimit.Config{
			Criticality: "X-Criticality", Class: func(*http.Request) string { return "all" },
			PerClass: func(class string) weir.Limiter { return g.Limit(httplimit.Auto(class)) },
		})
		testrig.Must(t, err)
		h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		refused := map[string]int{}
		for range 200 {
			for _, priority := range []string{"sheddable", ""} {
				w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
				r.Header.Set("X-Criticality", priority)
				if h.ServeHTTP(w, r); w.Code == 503 && w.Header().Get(httplimit.ReasonHeader) == "over_limit" && w.Header().Get("Retry-After") == "1" {
					refused[priority]++
				} else if w.Code != 200 {
					t.Errorf("%q: %d %v", priority, w.Code, w.Header())
				}
			}
			k.Stall(100 * time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		if refused["sheddable"] < 100 || refused[""] > 0 {
			t.Errorf("of 200 each, %v are refused", refused)
		}
		class := m.Stats().Classes[0]
		if class.Limiter == nil || class.Refused[weir.OverLimit] != uint64(refused["sheddable"]) {
			t.Errorf("%+v: want the refused ones, and the Stats of the limiter", class)
		}
	})
}

// A guard in front of a limiter that finds itself.
func ExampleGuard_Limit() {
	guard, err := pressure.New(pressure.Config{Max: 0.4})
	if err != nil {
		fmt.Println("without the pressure of the processor:", err)
		return
	}
	lim, err := inflight.New(inflight.Config{})
	if err != nil {
		panic(err)
	}
	_ = weir.Do(context.Background(), guard.Limit(lim), func(context.Context) error { return nil })
}
