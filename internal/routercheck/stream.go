package routercheck

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/shape"
)

// stream: what a handler flushes arrives while it runs, and it holds its permit
// until it has ended.
func stream(t *testing.T, r Router) {
	read := make(chan bool)
	url, m := start(t, r, perClass(), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-read
		io.WriteString(w, "second\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		<-read
	})
	t.Cleanup(func() { close(read) })
	resp, err := client.Get(url + "/hook")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"first\n", "second\n"} {
		if line, err := lines.ReadString('\n'); line != want || err != nil {
			t.Errorf("%q, %v: want %q", line, err, want)
		}
		if c := class(t, m, r.Hook); c.inflight != 1 {
			t.Errorf("streaming: %+v", c)
		}
		read <- true
	}
	free(t, m, r.Hook)
}

// hijack: a handler that has taken over the connection holds no permit, and counts
// as long-lived until it has ended, not the connection.
func hijack(t *testing.T, r Router) {
	leave := make(chan bool)
	url, m := start(t, r, perClass(), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine")
		<-leave
	})
	t.Cleanup(func() { close(leave) })
	for n := 1; n <= 2; n++ {
		if a := get(t, url+"/hook"); a.StatusCode != 202 || a.body != "mine" {
			t.Errorf("%s %q", a.Status, a.body)
		}
		if c, long := class(t, m, r.Hook), m.Stats().LongLived; c.inflight != 0 || long != n {
			t.Errorf("taken over: %+v, %d long-lived: want %d", c, long, n)
		}
	}
	leave <- true
	leave <- true
	free(t, m, r.Hook)
	until(t, "no request is long-lived", func() bool { return m.Stats().LongLived == 0 })
}

// pace: a body takes its bytes out of the bucket of its response.
func pace(t *testing.T, r Router) {
	bytes := rate.New(rate.Per(1, time.Hour, 100), rate.Config{})
	cfg := httplimit.Config{Bandwidth: func(*http.Request) (upload, download shape.Limiter) { return nil, bytes }}
	url, _ := start(t, r, cfg, func(http.ResponseWriter, *http.Request) {})
	if a := get(t, url+"/hello/ada"); a.StatusCode != 200 || a.body != "hello, ada\n" {
		t.Errorf("%s %q", a.Status, a.body)
	}
	if left := bytes.Take(0).Remaining; left != 100-len("hello, ada\n") {
		t.Errorf("%d bytes are left of 100", left)
	}
}

// use: a handler tells what its request has cost.
func use(t *testing.T, r Router) {
	url, _ := start(t, r, perClient(t), func(w http.ResponseWriter, _ *http.Request) {
		if !httplimit.Use(w, 3) {
			t.Error("no Middleware behind the writer")
		}
	})
	if a := get(t, url+"/hook"); a.StatusCode != 200 {
		t.Errorf("%s", a.Status)
	}
	a := get(t, url+"/hook")
	refused(t, a, 429, "60")
	if left := a.Header.Get("RateLimit"); !strings.Contains(left, ";r=0;") {
		t.Errorf("RateLimit: %s", left)
	}
}
