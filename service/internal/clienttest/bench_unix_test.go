//go:build unix

package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// callers is how many goroutines ask at once.
const callers = 64

// BenchmarkTake asks a real server over the loopback device: through the Client,
// which sends what comes at once together, and for comparison as a program would
// do by hand, a request for each decision, over HTTP/2 and over HTTP/1.1. Beside
// the time it takes it tells the CPU time of client and server together.
func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d/client", keys), func(b *testing.B) {
			c, err := client.New(client.Config{URL: loopback(b), Away: client.Local, Instances: 1, Timeout: 5 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			names := names(keys)
			load(b, func(i int) error {
				_, err := c.Take(b.Context(), names[i%keys], 1)
				return err
			})
			st := c.Stats()
			b.ReportMetric(float64(b.N)/float64(st.Requests), "calls/request")
		})
		for _, version := range []string{"2", "1.1"} {
			b.Run(fmt.Sprintf("keys=%d/http%s", keys, version), func(b *testing.B) {
				url := loopback(b) + "/rate/"
				t := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: callers}
				t.Protocols.SetHTTP1(version == "1.1")
				t.Protocols.SetUnencryptedHTTP2(version == "2")
				defer t.CloseIdleConnections()
				c, names := &http.Client{Transport: t}, names(keys)
				load(b, func(i int) error {
					resp, err := c.Post(url+names[i%keys], "", nil)
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				})
			})
		}
	}
}

// BenchmarkAway measures a call while the server is away.
func BenchmarkAway(b *testing.B) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // connections are refused
	c, err := client.New(client.Config{URL: s.URL, Away: client.Allow})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for !c.Stats().Away {
		_, _ = c.Take(b.Context(), "a", 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Take(b.Context(), "a", 1)
	}
}

// load runs f in many goroutines, with numbers from zero on.
func load(b *testing.B, f func(i int) error) {
	b.Helper()
	b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
	b.ReportAllocs()
	start := cpu()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if err := f(i); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func names(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("user:", i))
	}
	return names
}

// loopback serves until the benchmark ends, and returns the URL.
func loopback(b *testing.B) string {
	b.Helper()
	core, err := server.New(server.Config{Rules: rules(config.Rule{
		Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 1_000_000_000, Period: time.Second}},
	})})
	if err != nil {
		b.Fatal(err)
	}
	api, err := httpapi.New(core, httpapi.Config{})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewUnstartedServer(api)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	b.Cleanup(s.Close)
	return s.URL
}
