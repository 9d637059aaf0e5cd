//go:build system

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// uploads is the number of uploads of each shape through each proxy.
const uploads = 500

// The pieces of an upload. Each comes a moment after the one before.
const (
	uploadPieces = 3
	uploadPiece  = 10
	uploadSize   = uploadPieces * uploadPiece
)

// early lists what an origin does that answers before it has all of an upload.
var early = []struct {
	name   string
	answer string
	reads  int // bytes of the body that it reads before; -1: all, after the answer
	then   string
}{
	{"200 and a stream, then it reads", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", -1, "4\r\ndone\r\n0\r\n\r\n"},
	{"200 as a whole, then it reads", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", -1, ""},
	{"404 as a whole, then it reads", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", -1, ""},
	{"413, and it closes", "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 0, ""},
	{"200 after a piece, then it reads", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", uploadPiece, ""},
	{"200 and a stream after a piece, then it reads", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", uploadPiece, "4\r\ndone\r\n0\r\n\r\n"},
}

// If an origin answers before it has all of an upload, the upload reaches it whole or broken: never cut with a clean end.
// After the end of an answer, no client waits for the rest: nginx always breaks it off, weir proxy at times.
func TestUploadsBeside(t *testing.T) {
	var ended sync.Map // channels for how the origin saw each upload end, by its path
	origin := listening(t, func(c net.Conn) { serveEarly(c, &ended) })
	for name, address := range besides(t, origin) {
		for shape, e := range early {
			for _, chunked := range []bool{true, false} {
				var whole, broken, cut, answered atomic.Int64
				var running sync.WaitGroup
				places := make(chan struct{}, 25)
				for i := range uploads {
					places <- struct{}{}
					running.Go(func() {
						defer func() { <-places }()
						path := fmt.Sprintf("/%s/%d/%t/%d", strings.ReplaceAll(name, " ", "-"), shape, chunked, i)
						end := make(chan int, 1)
						ended.Store(path, end)
						if uploadTo(address, path, chunked, end) {
							answered.Add(1)
						}
						switch <-end {
						case uploadSize:
							whole.Add(1)
						case -1:
							broken.Add(1)
						default:
							cut.Add(1)
						}
					})
				}
				running.Wait()
				t.Logf("%-10s | %-46s | chunked %-5t | %3d whole, %3d broken, %3d cut with a clean end; %3d answers", name, e.name, chunked, whole.Load(), broken.Load(), cut.Load(), answered.Load())
				if name != "weir proxy" {
					continue
				}
				if cut.Load() > 0 || e.then != "" && whole.Load() < uploads || e.reads != 0 && answered.Load() < uploads {
					t.Errorf("%s, %s, chunked %t: want no upload cut, and all whole if the answer goes on after them", name, e.name, chunked)
				}
			}
		}
	}
}

// uploadTo sends an upload in pieces, and reports whether it has the whole answer. It returns when the origin has seen
// the end.
func uploadTo(address, path string, chunked bool, end chan int) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		end <- -1
		return false
	}
	defer c.Close()
	framing := "Content-Length: " + strconv.Itoa(uploadSize)
	if chunked {
		framing = "Transfer-Encoding: chunked"
	}
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a.example\r\n%s\r\n\r\n", path, framing)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range uploadPieces {
			piece := strings.Repeat("x", uploadPiece)
			if chunked {
				piece = fmt.Sprintf("%x\r\n%s\r\n", uploadPiece, piece)
			}
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
			time.Sleep(3 * time.Millisecond)
		}
		if chunked {
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	<-sent
	end <- <-end
	return err == nil
}

// serveEarly serves one upload after the other, as the path says. It sends how many bytes each had, if it ended well,
// and otherwise -1.
func serveEarly(c net.Conn, ended *sync.Map) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		shape, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[2])
		e := early[shape]
		n, err := 0, error(nil)
		if e.reads > 0 {
			n, err = io.ReadFull(r.Body, make([]byte, e.reads))
		}
		if err == nil {
			_, err = io.WriteString(c, e.answer)
		}
		end, _ := ended.Load(r.URL.Path)
		if e.reads == 0 {
			end.(chan int) <- -1
			return
		}
		more := int64(0)
		if err == nil {
			more, err = io.Copy(io.Discard, r.Body)
		}
		if n += int(more); err != nil {
			n = -1
		}
		end.(chan int) <- n
		if _, err := io.WriteString(c, e.then); err != nil || n < 0 {
			return
		}
	}
}
