package grpclimit_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/recording"
)

// A call that is served has a record, and so has one that is refused.
func TestACallHasARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, err := recording.New(recording.Config{})
		if err != nil {
			t.Fatal(err)
		}
		i := interceptor(t, grpclimit.Config{PerClass: func(string) weir.Limiter { return fixed(t, 1) }, Recorder: rec})
		call := func(method string, takes time.Duration) {
			_, _ = i.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
				time.Sleep(takes)
				return nil, nil
			})
		}
		const ms = time.Millisecond
		go call(emptyCall, 100*ms)
		time.Sleep(10 * ms)
		call(emptyCall, 0)
		call("/grpc.health.v1.Health/Check", 0) // exempt
		time.Sleep(time.Second)

		var b bytes.Buffer
		if err := rec.Drain(recording.NewWriter(&b, rec.Epoch())); err != nil {
			t.Fatal(err)
		}
		r, err := recording.NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		var got []recording.Record
		for one, err := r.Read(); err == nil; one, err = r.Read() {
			got = append(got, one)
		}
		slices.SortFunc(got, func(a, b recording.Record) int { return int(a.Intended - b.Intended) })
		if len(got) != 2 || r.Names()[1] != emptyCall {
			t.Fatalf("%+v, %v", got, r.Names())
		}
		if g := got[0]; !g.Outcome.Success() || g.Response().Round(ms) != 100*ms || g.Class != 1 || g.Inflight != 1 {
			t.Errorf("%+v", g)
		}
		if g := got[1]; g.Outcome != recording.Rejected(weir.OverLimit) || g.Response() != 0 || g.Class != 1 || g.Inflight != 1 {
			t.Errorf("%+v", g)
		}
	})
}
