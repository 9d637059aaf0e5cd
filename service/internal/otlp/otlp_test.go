package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/otlp"
)

// While nothing takes the exports, the log has a line a second at most, after the first ten.
func TestErrorsAreFew(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		export, err := otlp.Start(t.Context(), otlp.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		testrig.Must(t, err)
		for range 100 {
			otel.Handle(errors.New("away"))
		}
		time.Sleep(time.Second) // for the line that was put off
		synctest.Wait()
		export.Close()
		if n := strings.Count(log.String(), "error=away"); n != 11 || !strings.Contains(log.String(), "lines_left_out=89") {
			t.Errorf("%d lines for 100 errors:\n%s", n, log.String())
		}
	})
}

// Metrics are exported at the end although traces do not get through.
func TestCloseWithoutTraces(t *testing.T) {
	came, once := make(chan struct{}), sync.Once{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else r.Context() would not end
		if r.URL.Path == "/v1/metrics" {
			once.Do(func() { close(came) })
			return
		}
		select {
		case <-came:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	export, err := otlp.Start(context.Background(), otlp.Config{Log: slog.New(slog.DiscardHandler)})
	testrig.Must(t, err)
	export.Answered(httptest.NewRequest(http.MethodGet, "/", nil), "", http.StatusOK, time.Now())
	export.Close()
	select {
	case <-came:
	default:
		t.Error("no metrics were exported")
	}
}

// The next handler of a request finds the trace if it is sampled.
func TestTraceID(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "1")
	export, err := otlp.Start(t.Context(), otlp.Config{Log: slog.New(slog.DiscardHandler)})
	testrig.Must(t, err)
	defer export.Close()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for flags, want := range map[string]string{"00": "", "01": id} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("traceparent", "00-"+id+"-b7ad6b7169203331-"+flags)
		export.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := otlp.TraceID(r); got != want {
				t.Errorf("flags %s: %q: want %q, %q", flags, got, want, r.Header)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}
