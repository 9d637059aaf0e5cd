//go:build system

package demo_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/lab/internal/demo"
	"github.com/weir-go/weir/service/lab/internal/web"
)

// serve runs the demonstration as weirlab demo does.
func serve(t *testing.T, speed float64) (*demo.Live, string) {
	t.Helper()
	live, err := demo.NewLive(speed)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", live.Handler())
	mux.Handle("/", web.Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		live.Close()
		srv.Close()
	})
	return live, srv.URL
}

// number is the number in the text of an element, or -1 if there is none.
func number(tab *browser.Tab, id string) float64 {
	fields := strings.Fields(tab.Text(id))
	if len(fields) == 0 {
		return -1
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return -1
	}
	return v
}

// Each button has its effect on the numbers, which come from real HTTP.
func TestPage(t *testing.T) {
	_, url := serve(t, 10)
	tab := browser.Open(t, url, 1280, 900)
	until := func(what string, ok func() bool) { t.Helper(); tab.Until(what, ok) }
	about := func(id string, want, tolerance float64) func() bool {
		return func() bool { v := number(tab, id); return v >= want-tolerance && v <= want+tolerance }
	}
	text := func(id, want string) func() bool { return func() bool { return tab.Text(id) == want } }
	pressed := func(id string) func() bool { return func() bool { return tab.Pressed(id) } }

	until("the stream is live", text("status", "live"))
	until("the first experiment is chosen", pressed("experiment-normal"))
	until("all is well: 5 of 5 rps are served", about("goodput", 5, 0.5))
	tab.Screenshot("normal")

	tab.Click("experiment-slow")
	until("the experiment is chosen", pressed("experiment-slow"))
	until("a request takes 2 s", text("service-time", "2 s"))
	until("the service collapses", about("goodput", 0, 0.05))
	until("though the origin is busy", about("origin-throughput", 3.5, 0.5))
	until("its latency is beyond what a client waits", func() bool { return number(tab, "origin-p99") > 4 })
	tab.Screenshot("collapse")

	tab.Click("proxy-auto")
	until("the proxy is on", pressed("proxy-auto"))
	until("it makes the adaptive experiment of this one", pressed("experiment-adaptive"))
	until("the proxy saves the service", func() bool { return number(tab, "goodput") >= 3 })
	until("it refuses the rest", func() bool { return number(tab, "rejected") > 0.5 })
	until("the limit is shown", func() bool { return number(tab, "limit") >= 5 })
	tab.Screenshot("saved")
	for _, v := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"dark", 1280, 900, true}, {"narrow", 390, 900, false}, {"wide", 1280, 900, false}} {
		tab.View(v.width, v.height, v.dark)
		until("the "+v.name+" page is not too wide", func() bool { // the plots follow a moment later
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
		tab.Screenshot(v.name)
	}

	tab.Click("experiment-fixed")
	until("the experiment is chosen", pressed("experiment-fixed"))
	until("the limit is 5", text("limit", "5"))
	until("5 / 2 s are served", about("goodput", 2.5, 0.3))

	tab.Click("experiment-more-workers")
	until("there are 20 workers", text("workers", "20"))
	until("there is no limit", text("limit", "–"))
	until("all are served", about("goodput", 5, 0.5))
	until("each within 2 s", about("origin-p99", 2, 0.2))

	tab.Click("remove-workers")
	until("there are fewer workers", text("workers", "7"))
	until("it is the slow experiment again", pressed("experiment-slow"))
	tab.Click("add-workers")
	until("there are more workers", text("workers", "20"))
	tab.Click("slow")
	until("the origin is slower", text("service-time", "4 s"))
	until("it is none of the experiments", func() bool { return !tab.Pressed("experiment-more-workers") })
	until("each takes longer", func() bool { return number(tab, "origin-p99") > 3.5 })
	tab.Click("restore")
	until("the origin is as fast as ever", text("service-time", "1 s"))
	until("all are served again", about("goodput", 5, 0.5))

	tab.Click("proxy-5")
	until("the proxy is on", pressed("proxy-5"))
	until("its limit is shown", text("limit", "5"))
	tab.Click("proxy-off")
	until("the proxy is off", pressed("proxy-off"))
	tab.Click("experiment-normal")
	until("all is as it was", pressed("experiment-normal"))

	if n := browser.Evaluate[int](tab, `document.querySelectorAll("canvas").length`); n != 4 {
		t.Errorf("%d charts: want the source's four panels", n)
	}
}
