// Slowlink serves its own source over a link like that of an old telephone: 3G
// at its worst, 48 kB/s down and 16 kB/s up, shared by all clients.
//
//	go run -C examples ./slowlink
//
// and, while it runs, to see that 480 kB take ten seconds:
//
//	curl -o /dev/null http://127.0.0.1:8081/480000
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/shape"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -o /dev/null http://%s/480000\n", l.Addr())
	if err := serve(ctx, newLink(l)); err != nil {
		log.Fatal(err)
	}
}

// A link is a listener; its connections share a bandwidth.
type link struct {
	net.Listener
	up, down *rate.Limiter
}

const (
	down = 48_000 // bytes a second
	up   = 16_000
)

func newLink(l net.Listener) link {
	return link{l, rate.NewLimiter(up, up/10), rate.NewLimiter(down, down/10)}
}

func (l link) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return shape.NewConn(c, l.up, l.down), nil // what comes up is read here
}

// serve answers with as many bytes as the path says, until ctx ends.
func serve(ctx context.Context, l net.Listener) error {
	s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(strings.TrimPrefix(r.URL.Path, "/"), 10, 24)
		if err != nil {
			http.Error(w, "ask for a number of bytes below 16777216, as in /480000", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatUint(n, 10))
		io.CopyN(w, zeros{}, int64(n)) // an error means that the client has left
	})}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
