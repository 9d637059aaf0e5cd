// Peruser serves a page that each address may ask for five times at once, and
// then once every two seconds.
//
//	go run -C examples ./peruser
//
// and, while it runs:
//
//	for i in 1 2 3 4 5 6 7; do curl -i http://127.0.0.1:8082/; done
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	lim, err := keyed.New[netip.Addr](rate.Per(1, 2*time.Second, 5), keyed.Config{})
	if err != nil {
		log.Fatal(err)
	}
	s := http.Server{Addr: "127.0.0.1:8082", ReadHeaderTimeout: 5 * time.Second, Handler: limited(lim, http.HandlerFunc(hello))}
	context.AfterFunc(ctx, func() {
		for address, denials := range lim.Top(10) {
			fmt.Printf("%v was denied %d times\n", address, denials)
		}
		s.Close()
	})
	fmt.Printf("try: for i in 1 2 3 4 5 6 7; do curl -i http://%s/; done\n", s.Addr)
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }

// limited asks lim before h. The key is the address of the peer: a header that
// names another address can be made up.
func limited(lim *keyed.Limiter[netip.Addr], h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "no address", http.StatusBadRequest)
			return
		}
		d := lim.Take(peer.Addr(), 1)
		if !d.OK {
			if d.RetryAfter != weir.Never {
				seconds := (d.RetryAfter + time.Second - 1) / time.Second
				w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
			}
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		h.ServeHTTP(w, r)
	})
}
