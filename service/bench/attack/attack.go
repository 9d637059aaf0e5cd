package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An attack runs against an address until ctx ends, and returns how often it did what
// it does.
type attack struct {
	name string
	run  func(ctx context.Context, addr string) int64
}

// manyConns are the connections of an attack that needs many.
const manyConns = 10_000

var attacks = []attack{
	{"none", func(ctx context.Context, _ string) int64 { <-ctx.Done(); return 0 }},
	{"slow headers", hold("POST /rate/a HTTP/1.1\r\nHost: a\r\nX: ", "a", false)},
	{"slow bodies", hold("POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n[", " ", false)},
	{"slow readers", readNothing},
	{"10,000 idle", hold("POST /rate/a HTTP/1.1\r\nHost: a\r\n\r\n", "", true)},
	{"10,000 waiting", wait},
	{"rapid reset", overFrames(20, resetStreams)},
	{"CONTINUATION", overFrames(20, continueHeaders)},
	{"settings", overFrames(20, sendSettings)},
	{"pings", overFrames(20, sendPings)},
	{"fresh keys", sendBatches(func(i int64) string { return fmt.Sprint("k", i) }, 1000)},
	{"longest keys", sendBatches(func(i int64) string { return fmt.Sprint(strings.Repeat("ab", 500), i) }, 1000)},
	{"1,000 half bodies x 100", overFrames(100, halfBodies)},
	{"1,000 unread x 100", overFrames(100, unreadAnswers)},
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		context.AfterFunc(ctx, func() { c.Close() })
	}
	return c, err
}

// connect opens connections, from few goroutines, until ctx ends or there are enough.
// It opens another for each that use returns an error for.
func connect(ctx context.Context, addr string, n int, use func(net.Conn, int64) error) int64 {
	var opened, lost atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for ctx.Err() == nil && opened.Load()-lost.Load() < int64(n) {
				i := opened.Add(1)
				c, err := dial(ctx, addr)
				if err == nil {
					err = use(c, i)
				}
				if err != nil {
					lost.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return opened.Load()
}

// hold opens connections, sends the beginning of a request, and then a text each second.
func hold(first, then string, answered bool) func(context.Context, string) int64 {
	return func(ctx context.Context, addr string) int64 {
		var mu sync.Mutex
		var conns []net.Conn
		n := connect(ctx, addr, manyConns, func(c net.Conn, _ int64) error {
			if _, err := io.WriteString(c, first); err != nil {
				return err
			}
			if answered {
				if _, err := c.Read(make([]byte, 1<<10)); err != nil {
					return err
				}
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			return nil
		})
		for ctx.Err() == nil {
			for _, c := range conns {
				_, _ = io.WriteString(c, then)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return n
	}
}

// wait opens connections whose requests wait.
func wait(ctx context.Context, addr string) int64 {
	n := connect(ctx, addr, manyConns, func(c net.Conn, i int64) error {
		_, err := fmt.Fprintf(c, "POST /rate/late:%d?canWait=true HTTP/1.1\r\nHost: a\r\n\r\n", i%100)
		return err
	})
	<-ctx.Done()
	return n
}

// readNothing asks for large answers over many connections, and reads none.
func readNothing(ctx context.Context, addr string) int64 {
	body := "[" + strings.Repeat(`{"key":"a"},`, 999) + `{"key":"a"}]`
	request := fmt.Sprintf("POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	n := connect(ctx, addr, 1000, func(c net.Conn, _ int64) error {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		go func() {
			for ctx.Err() == nil {
				if _, err := io.WriteString(c, request); err != nil {
					return
				}
			}
		}()
		return nil
	})
	<-ctx.Done()
	return n
}

// sendBatches sends batches of new keys, as fast as the server takes them.
func sendBatches(key func(int64) string, size int) func(context.Context, string) int64 {
	return func(ctx context.Context, addr string) int64 {
		var keys atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := dial(ctx, addr)
					if err != nil {
						continue
					}
					for r := bufio.NewReader(c); ; {
						var b strings.Builder
						for i := range size {
							b.WriteByte("[,"[min(i, 1)])
							fmt.Fprintf(&b, `{"key":%q}`, key(keys.Add(1)))
						}
						b.WriteByte(']')
						if _, err := fmt.Fprintf(c, "POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String()); err != nil {
							break
						}
						resp, err := http.ReadResponse(r, nil)
						if err != nil {
							break
						}
						_, _ = io.Copy(io.Discard, resp.Body)
					}
				}
			})
		}
		wg.Wait()
		return keys.Load()
	}
}
