//go:build system

package grpclimit_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/testrig"
)

// ghz returns the command's path. It is a benchmark of gRPC that others wrote.
func ghz(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("ghz"); err == nil {
		return path
	}
	dir, err := exec.Command("go", "env", "GOPATH").Output()
	path := filepath.Join(strings.TrimSpace(string(dir)), "bin", "ghz")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatal("ghz is neither in PATH nor in $(go env GOPATH)/bin: go install github.com/bojand/ghz/cmd/ghz@v0.121.0")
	}
	return path
}

// ghz sends more calls at once than the limit admits. The handlers in progress stay
// within the limit, and the counts of ghz and of the Interceptor agree.
func TestGhz(t *testing.T) {
	const most, calls, refused = 5, 600, 100
	i := interceptor(t, grpclimit.Config{Limiter: fixed(t, most), Exempt: []string{"/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"}})
	var working, top atomic.Int64
	work := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		n := working.Add(1)
		defer working.Add(-1)
		for was := top.Load(); n > was && !top.CompareAndSwap(was, n); was = top.Load() {
		}
		testrig.Eventually(t, "others are refused", func() bool { return i.Stats().Classes[0].Refused[weir.OverLimit] >= refused }) // so that they meet
		return next(ctx, req)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary(), work), grpc.ChainStreamInterceptor(i.Stream()))
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)

	cmd := exec.CommandContext(t.Context(), ghz(t), "--insecure", "--call", "grpc.health.v1.Health.Check",
		"--total", strconv.Itoa(calls), "--concurrency", "40", "--connections", "4", "--format", "json", lis.Addr().String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	testrig.Must(t, err)
	var report struct {
		Count                  uint64
		StatusCodeDistribution map[string]uint64
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	codes := report.StatusCodeDistribution
	t.Logf("ghz: %v, at most %d at work", codes, top.Load())
	c := i.Stats().Classes[0]
	if report.Count != calls || codes["OK"] != c.Admitted || codes["Unavailable"] != c.Refused[weir.OverLimit] || codes["OK"]+codes["Unavailable"] != calls {
		t.Errorf("ghz: %+v, the Interceptor: %+v", report, c)
	}
	if n := top.Load(); n > most || codes["OK"] < most || codes["Unavailable"] < refused {
		t.Errorf("%d at work at once, %v: want %d, and %d refusals", n, codes, most, refused)
	}
	if i.Stats().Exempt == 0 {
		t.Error("reflection is not exempt")
	}
}
