//go:build unix

package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// BenchmarkAssign answers exchanges of 1,000 reports of any of 100,000 keys, each of which 20
// leaves have. An operation is one exchange.
func BenchmarkAssign(b *testing.B) {
	const keys, leaves, reports = 100_000, 20, 1000
	api := newAPI(b, httpapi.Config{}, allKeys(100_000, time.Second, ""))
	body := &bytes.Buffer{}
	w := &blank{http.Header{}}
	exchange := func(leaf, first, step int, wants float64) {
		body.Reset()
		fmt.Fprintf(body, `{"leaf":"leaf-%d","held":%d,"reports":[`, leaf, first)
		for i := range reports {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(body, `{"key":"tenant:%d","used":3,"wants":%.3f,"has":12.345678}`, (first+i*step)%keys, wants)
		}
		body.WriteString("]}")
	}
	post := func() {
		r := httptest.NewRequest("POST", "/assign", io.NopCloser(bytes.NewReader(body.Bytes())))
		r.ContentLength = int64(body.Len())
		clear(w.h)
		api.ServeHTTP(w, r)
	}
	for first := 0; first < keys; first += reports {
		for leaf := range leaves {
			exchange(leaf, first, 1, 10)
			post()
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var took time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		exchange(i%leaves, rnd.IntN(keys), 7919, 9+2*rnd.Float64())
		start := cpuTime()
		post()
		took += cpuTime() - start
	}
	b.ReportMetric(float64(took)/float64(b.N)/reports, "cpu-ns/report")
}

// cpuTime returns the processor time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
