package shape_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/shape"
)

// A copy takes what the source gives no faster than the limiter allows.
func ExampleReader() {
	lim := rate.NewLimiter(10000, 100) // 10 kB/s, at most 100 B at once
	src := strings.NewReader(strings.Repeat("weir ", 50))
	n, err := io.Copy(io.Discard, shape.NewReader(context.Background(), src, lim))
	fmt.Println(n, err)
	// Output: 250 <nil>
}

// A Write says how much it has written when its context ends.
func ExampleWriter() {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	var dst bytes.Buffer
	w := shape.NewWriter(ctx, &dst, rate.NewLimiter(1, 4)) // 1 B/s, at most 4 B at once
	n, err := w.Write([]byte("weirs hold back"))
	fmt.Printf("%d %q %v\n", n, &dst, err)
	// Output: 4 "weir" context canceled
}

// Each direction of a connection has its own pace, or none.
func ExampleConn() {
	near, far := net.Pipe()
	defer far.Close()
	go io.Copy(far, far) // an echo
	conn := shape.NewConn(near, nil, rate.NewLimiter(1000, 10))
	defer conn.Close()
	go conn.Write([]byte("a low dam"))
	got := make([]byte, 9)
	_, err := io.ReadFull(conn, got)
	fmt.Printf("%s, %v\n", got, err)
	// Output: a low dam, <nil>
}

// Any rate limit with a burst will do: one of package rate, or of
// golang.org/x/time/rate. Readers that share one share its bandwidth.
func ExampleLimiter() {
	var lim shape.Limiter = rate.NewLimiter(1e6, 1e4)
	for _, s := range []string{"one", "other"} {
		b, err := io.ReadAll(shape.NewReader(context.Background(), strings.NewReader(s), lim))
		fmt.Printf("%s %v\n", b, err)
	}
	// Output:
	// one <nil>
	// other <nil>
}
