package connlimit_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/httpserve"
)

// A client opens another connection about every ten minutes. No request fails, and the answer
// that is in progress meanwhile comes whole.
func TestConnectionsOfAnAgeEnd(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ln := pipenet.Listen()
			conns := connlimit.New(ln, 100)
			conns.MaxAge = 10 * time.Minute
			handler := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/slow" {
					return
				}
				for range 60 {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(time.Minute)
				}
			}
			srv := httpserve.New(httpserve.Leave(http.HandlerFunc(handler), func(r *http.Request) bool { return connlimit.Outlived(r.Context()) }), slog.New(slog.DiscardHandler))
			srv.ConnState, srv.ConnContext = conns.ConnState, conns.ConnContext
			httpserve.SpeakHTTP2(srv, 10*time.Second)
			go func() { _ = srv.Serve(conns) }()
			dials := new(atomic.Int64)
			transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return ln.Dial(ctx, network, addr)
			}}
			transport.Protocols.SetHTTP1(!http2)
			transport.Protocols.SetUnencryptedHTTP2(http2)
			client := &http.Client{Transport: transport}
			get := func(path string) string {
				resp, err := client.Get("http://weir.test" + path)
				testrig.Must(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				return string(body)
			}
			slow := make(chan string)
			go func() { slow <- get("/slow") }()
			synctest.Wait()
			for range 100 {
				get("/")
				time.Sleep(time.Minute)
			}
			if got := <-slow; len(got) != 60 {
				t.Errorf("http2 = %t: %q: want 60 bytes", http2, got)
			}
			least, most := int64(9), int64(12) // of 9 to 11 minutes each, and a minute until the next request
			if !http2 {                        // the slow request has its own connection
				least, most = least+1, most+1
			}
			if n := dials.Load(); n < least || n > most {
				t.Errorf("http2 = %t: %d connections in 100 minutes", http2, n)
			}
			transport.CloseIdleConnections()
			_ = srv.Close()
			time.Sleep(time.Minute) // the server lingers
		})
	}
}

// Connections that come together leave in turn, within a tenth of the age. Without an age, they
// stay.
func TestAgesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, age := range []time.Duration{0, time.Hour} {
			ln := pipenet.Listen()
			limit := connlimit.New(ln, 10_000)
			limit.MaxAge = age
			var all []context.Context
			for range 1000 {
				client, server := net.Pipe()
				go func() { _ = ln.Connect(t.Context(), server) }()
				c, err := limit.Accept()
				testrig.Must(t, err)
				defer client.Close()
				defer c.Close()
				all = append(all, limit.ConnContext(t.Context(), c))
			}
			outlived := func() (n int) {
				for _, ctx := range all {
					if connlimit.Outlived(ctx) {
						n++
					}
				}
				return n
			}
			for _, tt := range []struct {
				after       time.Duration
				least, most int
			}{{54 * time.Minute, 0, 0}, {3 * time.Minute, 150, 350}, {3 * time.Minute, 400, 600}, {3 * time.Minute, 650, 850}, {4 * time.Minute, 1000, 1000}} {
				time.Sleep(tt.after)
				if age == 0 {
					tt.least, tt.most = 0, 0
				}
				if n := outlived(); n < tt.least || n > tt.most {
					t.Errorf("age %v: %d are too old, want %d to %d", age, n, tt.least, tt.most)
				}
			}
			_ = limit.Close()
		}
		if connlimit.Outlived(t.Context()) {
			t.Error("a context without a connection")
		}
	})
}
