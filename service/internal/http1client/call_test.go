package http1client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/http1client"
)

func ignore(int, textproto.MIMEHeader) error { return nil }

// fetch sends a request, and returns the body of the answer.
func fetch(t *testing.T, c *http1client.Client, req *http.Request) string {
	t.Helper()
	resp, err := c.RoundTrip(req)
	testrig.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testrig.Must(t, err)
	return string(body)
}

// openConnections makes requests at a time, and reads their answers.
func openConnections(t *testing.T, c *http1client.Client, n int) {
	t.Helper()
	var open []*http.Response
	for range n {
		resp, err := c.RoundTrip(newRequest(t, "GET", ""))
		testrig.Must(t, err)
		open = append(open, resp)
	}
	for _, resp := range open {
		_, _ = io.ReadAll(resp.Body)
	}
}

// A call goes on after an interruption at any point: while the request is sent, before the
// answer, and between 1xx answers. While the header comes, it is not interrupted.
func TestInterrupt(t *testing.T) {
	request := "POST /path?q=1 HTTP/1.1\r\nHost: origin.test\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 4\r\n\r\nbody"
	answer := "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	synctest.Test(t, func(t *testing.T) {
		for cut := range len(request) + len(answer) + 1 {
			client := &http1client.Client{MaxIdle: 1, IdleTimeout: time.Hour}
			var server net.Conn
			client.Dial = func(context.Context) (nc net.Conn, err error) {
				nc, server = net.Pipe()
				go func() { // the first request, which makes the connection idle
					_, _ = http.ReadRequest(bufio.NewReader(server))
					_, _ = io.WriteString(server, ok)
				}()
				return nc, nil
			}
			fetch(t, client, newRequest(t, "GET", ""))
			call := client.Start(newRequest(t, "POST", "body"), ignore)
			got := make([]byte, len(request))
			go func() {
				_, _ = io.ReadFull(server, got[:min(cut, len(got))])
				if cut > len(got) {
					_, _ = io.WriteString(server, answer[:cut-len(got)])
				}
				time.Sleep(time.Second) // the interruption
				_, _ = io.ReadFull(server, got[min(cut, len(got)):])
				_, _ = io.WriteString(server, answer[max(cut-len(got), 0):])
			}()
			var resp *http.Response
			var err error
			interruptions := 0
			go func() {
				time.Sleep(time.Second / 2)
				call.Interrupt()
			}()
			for resp, err = call.Do(); err == http1client.ErrInterrupted; resp, err = call.Do() {
				interruptions++
			}
			if err != nil {
				t.Fatalf("cut after %d bytes: %v", cut, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "ok" || string(got) != request {
				t.Errorf("cut after %d bytes: %q, %q, %v", cut, got, body, err)
			}
			if beginning := cut <= len(request); beginning && interruptions == 0 {
				t.Errorf("cut after %d bytes: not interrupted", cut)
			}
			client.CloseIdleConnections()
			time.Sleep(time.Minute) // until all goroutines have ended
		}
	})
}

// An interruption while a 1xx answer is passed on ends the wait for the next one.
func TestInterruptIn1xx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok, "HTTP/1.1 103 Early Hints\r\n\r\n"}, pieces: 1 << 30}
		client := s.client()
		fetch(t, client, newRequest(t, "GET", ""))
		var call *http1client.Call
		call = client.Start(newRequest(t, "GET", ""), func(int, textproto.MIMEHeader) error {
			call.Interrupt()
			return nil
		})
		time.AfterFunc(time.Minute, call.Abort)
		if _, err := call.Do(); err != http1client.ErrInterrupted {
			t.Errorf("%v: want an interruption", err)
		}
		if _, err := call.Do(); err == nil || err == http1client.ErrInterrupted {
			t.Errorf("%v: want the end of the connection", err)
		}
	})
}

// If a connection takes long to open, the request uses one that becomes free meanwhile. The new one
// serves the next request.
func TestFreeConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok, ok, ok, ok}, pieces: 1 << 30}
		client := s.client()
		first, err := client.RoundTrip(newRequest(t, "GET", ""))
		testrig.Must(t, err)
		var fails atomic.Bool
		client.Dial = func(context.Context) (net.Conn, error) {
			time.Sleep(2 * time.Second)
			if fails.Load() {
				return nil, io.ErrClosedPipe
			}
			return s.dial(), nil
		}
		for _, f := range []bool{true, false} {
			fails.Store(f)
			began := time.Now()
			time.AfterFunc(time.Second, func() { _, _ = io.ReadAll(first.Body) })
			if first, err = client.RoundTrip(newRequest(t, "GET", "")); err != nil || time.Since(began) != time.Second {
				t.Fatalf("%v after %v: want an answer after 1s", err, time.Since(began))
			}
			time.Sleep(time.Minute)
		}
		began := time.Now()
		if fetch(t, client, newRequest(t, "GET", "")); time.Since(began) > 0 {
			t.Errorf("the next request waits for %v", time.Since(began))
		}
		_, _ = io.ReadAll(first.Body)
		client.CloseIdleConnections()
		fails.Store(true)
		if _, err := client.RoundTrip(newRequest(t, "GET", "")); err != io.ErrClosedPipe {
			t.Errorf("%v: want that of Dial", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.RoundTrip(newRequest(t, "GET", "").WithContext(ctx)); err != context.DeadlineExceeded {
			t.Errorf("%v: want that of the context", err)
		}
		time.Sleep(time.Minute)
		client.CloseIdleConnections()
	})
}

// A call that is aborted closes its connection, and no other one: at any time, and often.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok, ok, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"}, pieces: 1 << 30}
		client := s.client()
		fetch(t, client, newRequest(t, "GET", ""))
		first := client.Start(newRequest(t, "GET", ""), ignore)
		resp, err := first.Do()
		testrig.Must(t, err)
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		second := client.Start(newRequest(t, "GET", ""), ignore)
		first.Abort() // is over
		first.Interrupt()
		_ = resp.Body.Close()
		if resp, err = second.Do(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, second.Abort)
		if body, err := io.ReadAll(resp.Body); err == nil || string(body) != "ok" {
			t.Errorf("%q, %v: want an error after ok", body, err)
		}
		second.Abort()
		synctest.Wait()
		if got := s.got(); !strings.Contains(got, "connection 0, closed true") || strings.Contains(got, "connection 1") {
			t.Error(got)
		}
		if client.Start(newRequest(t, "GET", ""), ignore) != nil {
			t.Error("the connection is idle")
		}
	})
}

// The end of a context ends the wait for the answer, and the answer.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", ""}, pieces: 1 << 30}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := s.client().RoundTrip(newRequest(t, "GET", "").WithContext(ctx))
		testrig.Must(t, err)
		time.AfterFunc(time.Second, func() { cancel(why) })
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%q without an error", body)
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		s = &server{answers: []string{""}, pieces: 1 << 30}
		if _, err := s.client().RoundTrip(newRequest(t, "GET", "").WithContext(ctx)); err != why {
			t.Errorf("%v: want the cause", err)
		}
		synctest.Wait()
		if got := s.got(); !strings.Contains(got, "closed true") {
			t.Error(got)
		}
	})
}

// A request that may be repeated is sent twice at most. A connection that was opened for another one
// is a new one, so a server that closes each does not make a request dial for ever.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok, "CLOSE"}, pieces: 1 << 30}
		client := s.client()
		openConnections(t, client, 5)
		sick := &server{answers: []string{"CLOSE"}, pieces: 1}
		client.Dial = func(context.Context) (net.Conn, error) { return sick.dial(), nil }
		if got := told(client, newRequest(t, "GET", "")); got != "failed" {
			t.Error(got)
		}
		synctest.Wait()
		if before, after := strings.Count(s.got(), "GET "), strings.Count(sick.got(), "GET "); before != 5+1 || after != 1 {
			t.Errorf("%d and %d requests: want 5, and one that is sent twice", before, after)
		}
		client.CloseIdleConnections()

		var dials atomic.Int64
		client.Dial = func(context.Context) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return s.dial(), nil
			}
			time.Sleep(10 * time.Millisecond)
			nc, end := net.Pipe()
			_ = end.Close()
			return nc, nil
		}
		resp, err := client.RoundTrip(newRequest(t, "GET", ""))
		testrig.Must(t, err)
		time.AfterFunc(time.Millisecond, func() { _, _ = io.ReadAll(resp.Body) })
		if got := told(client, newRequest(t, "GET", "")); got != "failed" || dials.Load() > 3 {
			t.Errorf("%s, %d connections", got, dials.Load())
		}
		time.Sleep(time.Second)
		client.CloseIdleConnections()
	})
}

// Idle connections are bounded in number and time.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []string{ok, ok}, pieces: 1 << 30}
		client := s.client()
		client.MaxIdle, client.IdleTimeout = 2, time.Minute
		openConnections(t, client, 4)
		synctest.Wait()
		if n := strings.Count(s.got(), "closed true"); n != 2 {
			t.Errorf("%d of 4 connections are closed: want 2", n)
		}
		time.Sleep(59 * time.Second)
		if n := strings.Count(s.got(), "closed true"); n != 2 {
			t.Errorf("%d of 4 connections are closed before the time-out: want 2", n)
		}
		time.Sleep(7 * time.Second)
		if n := strings.Count(s.got(), "closed true"); n != 4 {
			t.Errorf("%d of 4 connections are closed after the time-out: want 4", n)
		}
	})
}

// A tcpServer serves each connection by a function.
func tcpServer(t *testing.T, serve func(n int, c *net.TCPConn)) *http1client.Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(n, c.(*net.TCPConn))
		}
	}()
	client := &http1client.Client{MaxIdle: 10, IdleTimeout: time.Hour, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
	}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A connection that the server has closed, or on which it has sent something before it was
// asked, serves no other request.
func TestStale(t *testing.T) {
	for name, after := range map[string]func(*net.TCPConn){
		"the server closes":       func(c *net.TCPConn) { _ = c.Close() },
		"the server closes half":  func(c *net.TCPConn) { _ = c.CloseWrite() },
		"the server resets":       func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"the server answers more": func(c *net.TCPConn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") },
		"408":                     func(c *net.TCPConn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n"); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			idle, done := make(chan struct{}), make(chan struct{})
			client := tcpServer(t, func(n int, c *net.TCPConn) {
				r := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(r); err != nil {
						_ = c.Close()
						return
					}
					_, _ = io.WriteString(c, ok)
					if n == 0 {
						<-idle
						after(c)
						close(done)
						return
					}
				}
			})
			fetch(t, client, newRequest(t, "POST", "1"))
			close(idle)
			<-done
			if got := fetch(t, client, newRequest(t, "POST", "2")); got != "ok" {
				t.Errorf("%q: want ok", got)
			}
		})
	}
}

// A request that http.Transport refuses does not reach the server: it could smuggle another one.
func TestInvalid(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"method":       func(r *http.Request) { r.Method = "GET /evil HTTP/1.1\r\nX:" },
		"no method":    func(r *http.Request) { r.Method = "" },
		"header":       func(r *http.Request) { r.Header["A: b\r\nX"] = []string{"y"} },
		"header value": func(r *http.Request) { r.Header["X"] = []string{"a\r\nContent-Length: 5"} },
		"path":         func(r *http.Request) { r.URL.Opaque = "/ HTTP/1.1\r\nX:" },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []string{ok, ok, ok}, pieces: 1 << 30}
			client := s.client()
			fetch(t, client, newRequest(t, "GET", ""))
			before := s.got()
			req := newRequest(t, "GET", "")
			spoil(req)
			if told := told(client, req); told != "failed" {
				t.Errorf("%s: %s", name, told)
			}
			if call := client.Start(req, ignore); call != nil {
				if _, err := call.Do(); err == nil {
					t.Errorf("%s: no error", name)
				}
			}
			synctest.Wait()
			if got := s.got(); strings.ReplaceAll(got, "true", "false") != before {
				t.Errorf("%s: the server gets %s", name, got)
			}
			client.CloseIdleConnections()
		})
	}
}

// If the server does not read the whole request, its answer counts, and the connection ends.
func TestEarlyAnswer(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno", ""} {
		synctest.Test(t, func(t *testing.T) {
			client := &http1client.Client{MaxIdle: 1, IdleTimeout: time.Hour}
			var server net.Conn
			client.Dial = func(context.Context) (nc net.Conn, err error) {
				nc, server = net.Pipe()
				go func() {
					_, _ = io.WriteString(server, answer)
					_ = server.Close()
				}()
				return deaf{nc}, nil
			}
			resp, err := client.RoundTrip(newRequest(t, "POST", "a body"))
			if answer == "" {
				if !errors.Is(err, syscall.EPIPE) {
					t.Errorf("%v: want that of the request", err)
				}
				return
			}
			testrig.Must(t, err)
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != 413 || string(body) != "no" || err != nil {
				t.Errorf("%d, %q, %v", resp.StatusCode, body, err)
			}
			if client.Start(newRequest(t, "GET", ""), ignore) != nil {
				t.Error("the connection is idle")
			}
		})
	}
}

// A deaf connection takes a few bytes only.
type deaf struct{ net.Conn }

func (d deaf) Write(p []byte) (int, error) { return 10, syscall.EPIPE }

// Bytes that no request asked for are logged, unless they say why the connection ends.
func TestUnsolicited(t *testing.T) {
	var lines strings.Builder
	log.SetOutput(&lines)
	defer log.SetOutput(io.Discard)
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]bool{"more": true, "HTTP/1.1 200 OK": true, "HTTP/1.1 408 Request Timeout": false, "HTTP": true, "": false} {
			lines.Reset()
			s := &server{answers: []string{ok + text}, pieces: 1 << 30}
			client := s.client()
			fetch(t, client, newRequest(t, "GET", ""))
			if got := strings.Contains(lines.String(), "Unsolicited"); got != want {
				t.Errorf("%q: logged %v: want %v", text, got, want)
			}
			client.CloseIdleConnections()
		}
	})
}

func BenchmarkClient(b *testing.B) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }))
	defer origin.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	own := &http1client.Client{MaxIdle: 64, IdleTimeout: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", origin.Listener.Addr().String())
	}}
	defer own.CloseIdleConnections()
	for name, rt := range map[string]http.RoundTripper{"Transport": transport, "Client": own} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest("GET", origin.URL, nil)
					resp, err := rt.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}
