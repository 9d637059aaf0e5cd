package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pieces counts the pieces that are left of a body. Each comes a second after the one before.
type pieces int

func (n *pieces) Read(p []byte) (int, error) {
	if *n == 0 {
		return 0, io.EOF
	}
	*n--
	time.Sleep(s)
	return copy(p, make([]byte, pieceSize)), nil
}

const (
	pieceSize = 10_000
	sent      = 10 * pieceSize // bytes: more than the proxy receives first
)

// An earlyOrigin answers before it has read a request, and then reads it. It notes how the body has ended.
func earlyOrigin(status int, more bool, ended *atomic.Value) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		_ = out.EnableFullDuplex() // HTTP/2 has nothing else
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "early ")
		if !more {
			return
		}
		_ = out.Flush()
		n, err := io.Copy(io.Discard, r.Body)
		ended.Store(fmt.Sprintf("%d bytes, %v, trailer %q", n, err == nil, r.Trailer.Get("Sum")))
		fmt.Fprintf(w, "%d", n)
	})
}

// If the origin answers before it has read a request, it gets all of its body, if it goes on reading, and never less
// with a clean end.
func TestUploadsEndWholeOrBroken(t *testing.T) {
	for _, http2Client := range []bool{false, true} {
		for _, http2Origin := range []bool{false, true} {
			for _, length := range []int64{-1, sent} {
				for _, status := range []int{200, 404} {
					for _, more := range []bool{false, true} {
						name := fmt.Sprintf("client HTTP/2 %v, origin HTTP/2 %v, length %d, %d, more %v", http2Client, http2Origin, length, status, more)
						t.Run(name, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								var ended atomic.Value
								f := newWeir(t, setting{http2Origin: http2Origin, origin: earlyOrigin(status, more, &ended)})
								defer f.stop()
								got := upload(t, f, http2Client, length)
								time.Sleep(time.Minute)
								end, _ := ended.Load().(string)
								if more && status == 404 && (http2Client || http2Origin) { // net/http's client stops sending then
									if !strings.Contains(end, "false") || strings.HasPrefix(got, "404") {
										t.Errorf("the client got %q, the origin %s: want errors", got, end)
									}
									return
								}
								answer, whole := fmt.Sprintf("%d early ", status), ""
								if more {
									trailer := ""
									if length < 0 {
										trailer = "42"
									}
									answer, whole = answer+fmt.Sprint(sent), fmt.Sprintf("%d bytes, true, trailer %q", sent, trailer)
								}
								if got != answer || end != whole {
									t.Errorf("the client got %q, the origin %s: want %q and %s", got, end, answer, whole)
								}
							})
						})
					}
				}
			}
		}
	}
}

// upload sends a body slowly, with a trailer if its length is not known, and returns the answer.
func upload(t *testing.T, f *front, http2 bool, length int64) string {
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	tr := &http.Transport{Protocols: &protocols, DialContext: f.dialer()}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	body := pieces(sent / pieceSize)
	req, err := http.NewRequestWithContext(ctx, "POST", "http://shop.example/", io.NopCloser(&body))
	if err != nil {
		t.Fatal(err)
	}
	if req.ContentLength = length; length < 0 {
		req.Trailer = http.Header{"Sum": {"42"}}
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, text)
}

// A client of HTTP/1.1 that waits for the origin before it sends more gets what the origin sends at once, and so does
// the origin. An answer that ends before the request does ends the connection, but not before the client
// could read the answer.
func TestBothDirectionsAtOnce(t *testing.T) {
	for _, http2Origin := range []bool{false, true} {
		for _, length := range []string{"Transfer-Encoding: chunked", "Content-Length: 100000"} {
			t.Run(fmt.Sprintf("origin HTTP/2 %v, %s", http2Origin, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newWeir(t, setting{http2Origin: http2Origin, origin: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						out := http.NewResponseController(w)
						_ = out.EnableFullDuplex()
						_ = out.Flush()
						for part := make([]byte, 4); ; {
							if _, err := io.ReadFull(r.Body, part); err != nil || string(part) == "stop" {
								return
							}
							_, _ = w.Write(part)
							_ = out.Flush()
						}
					})})
					defer f.stop()
					c := f.dial()
					defer c.Close()
					r := bufio.NewReader(c)
					send := func(text string) {
						if strings.HasPrefix(length, "T") {
							text = fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
						}
						if _, err := io.WriteString(c, text); err != nil {
							t.Error(err)
						}
					}
					fmt.Fprintf(c, "POST / HTTP/1.1\r\n%s%s\r\n\r\n", host, length)
					resp, err := http.ReadResponse(r, nil)
					if err != nil || resp.StatusCode != 200 || !resp.Close {
						t.Fatalf("%+v, %v", resp, err)
					}
					time.Sleep(time.Hour) // a silent stream is no slow upload
					began := time.Now()
					send("ping")
					part := make([]byte, 4)
					if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != "ping" {
						t.Errorf("%q, %v", part, err)
					}
					send("stop")
					if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
						t.Errorf("the answer goes on with %q, %v", rest, err)
					}
					if d := time.Since(began); d > s { // http.Transport waits 50 ms for the rest of the request
						t.Errorf("it took %v", d)
					}
					if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
						t.Errorf("%d bytes, %v: want the end of the connection", n, err)
					}
					if d := time.Since(began); d > time.Minute {
						t.Errorf("it took %v", d)
					}
				})
			})
		}
	}
}

// A client that waits for 100 Continue gets a refusal of the origin instead, and does not keep its connection.
func TestRefusedExpectation(t *testing.T) {
	for _, http2Origin := range []bool{false, true} {
		for _, length := range []string{"Transfer-Encoding: chunked", "Content-Length: 100000"} {
			t.Run(fmt.Sprintf("origin HTTP/2 %v, %s", http2Origin, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newWeir(t, setting{http2Origin: http2Origin, origin: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.WriteHeader(http.StatusExpectationFailed)
						fmt.Fprint(w, "no")
					})})
					defer f.stop()
					c := f.dial()
					defer c.Close()
					began := time.Now()
					fmt.Fprintf(c, "POST / HTTP/1.1\r\n%sExpect: 100-continue\r\n%s\r\n\r\n", host, length)
					r := bufio.NewReader(c)
					resp, err := http.ReadResponse(r, nil)
					if err != nil || resp.StatusCode != 417 || !resp.Close {
						t.Fatalf("%+v, %v", resp, err)
					}
					if text, err := io.ReadAll(resp.Body); string(text) != "no" || err != nil {
						t.Errorf("%q, %v", text, err)
					}
					if d := time.Since(began); d > s {
						t.Errorf("it took %v", d)
					}
					if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF || time.Since(began) > time.Minute {
						t.Errorf("%d bytes, %v after %v: want the end of the connection", n, err, time.Since(began))
					}
				})
			})
		}
	}
}

// A client that sends all of its request before it reads gets an answer that came early: the connection is not
// closed meanwhile, but for a client that does not end.
func TestClientThatSendsAllFirst(t *testing.T) {
	for _, seconds := range []int{10, 3600} {
		synctest.Test(t, func(t *testing.T) {
			f := newWeir(t, setting{origin: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusRequestEntityTooLarge) })})
			defer f.stop()
			c := f.dial()
			defer c.Close()
			fmt.Fprintf(c, "POST / HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n", host)
			go func() { // what a kernel does
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || resp.StatusCode != 413 {
					t.Errorf("%+v, %v", resp, err)
				}
			}()
			began := time.Now()
			part := fmt.Sprintf("%x\r\n%s\r\n", 200_000, make([]byte, 200_000))
			var err error
			for range seconds {
				if _, err = io.WriteString(c, part); err != nil {
					break
				}
				time.Sleep(s)
			}
			if d := time.Since(began); (err != nil) != (seconds > 60) || d > 2*time.Minute {
				t.Errorf("%d s of sending: %v after %v", seconds, err, d)
			}
		})
	}
}
