package httpapi

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// The fields of a rule in calendar windows tell the end of the window, which a change of clocks
// moves: this day has 23 hours.
func TestFieldsOfCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := config.Rule{Name: "r", Glob: "*", Quota: config.Quota{
			Rate: config.Rate{Count: 2, Period: 24 * time.Hour}, Algorithm: config.Calendar, Zone: "Europe/Berlin",
		}}
		s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{day}}})
		testrig.Must(t, err)
		a, err := New(s, Config{})
		testrig.Must(t, err)
		time.Sleep(time.Until(time.Date(2000, 3, 25, 23, 0, 0, 0, time.UTC)))
		for _, want := range []struct {
			left  string
			retry string
			code  int
		}{{`"r";r=1;t=82800`, "", 200}, {`"r";r=0;t=79200`, "", 200}, {`"r";r=0;t=75600`, "75600", 429}} {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest("POST", "/rate/a", nil))
			h := w.Header()
			if w.Code != want.code || h.Get("RateLimit") != want.left || h.Get("Retry-After") != want.retry || h.Get("RateLimit-Policy") != `"r";q=2;w=86400` {
				t.Errorf("%d %v: want %+v", w.Code, h, want)
			}
			time.Sleep(time.Hour)
		}
	})
}
