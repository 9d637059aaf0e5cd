//go:build system && !race

package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxSize bounds the stripped binary.
const maxSize = 30_000_000

// modules are the modules of others in the binary. What plots, writes PDF or has fonts belongs to weirlab.
var modules = []string{
	"charm.land/bubbletea/v2",
	"charm.land/lipgloss/v2",
	"github.com/HdrHistogram/hdrhistogram-go",
	"github.com/beorn7/perks",
	"github.com/cenkalti/backoff/v5",
	"github.com/cespare/xxhash/v2",
	"github.com/charmbracelet/colorprofile",
	"github.com/charmbracelet/ultraviolet",
	"github.com/charmbracelet/x/ansi",
	"github.com/charmbracelet/x/term",
	"github.com/charmbracelet/x/termios",
	"github.com/charmbracelet/x/windows",
	"github.com/clipperhouse/displaywidth",
	"github.com/clipperhouse/uax29/v2",
	"github.com/cncf/xds/go",
	"github.com/coreos/go-systemd/v22",
	"github.com/envoyproxy/go-control-plane/envoy",
	"github.com/envoyproxy/protoc-gen-validate",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/goccy/go-yaml",
	"github.com/google/uuid",
	"github.com/grpc-ecosystem/grpc-gateway/v2",
	"github.com/lucasb-eyer/go-colorful",
	"github.com/mattn/go-runewidth",
	"github.com/muesli/cancelreader",
	"github.com/munnerz/goautoneg",
	"github.com/pires/go-proxyproto",
	"github.com/prometheus/client_golang",
	"github.com/prometheus/client_model",
	"github.com/prometheus/common",
	"github.com/prometheus/procfs",
	"github.com/redis/go-redis/v9",
	"github.com/rivo/uniseg",
	"github.com/spf13/pflag",
	"github.com/xo/terminfo",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/contrib/bridges/prometheus",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/otel/sdk/metric",
	"go.opentelemetry.io/otel/trace",
	"go.opentelemetry.io/proto/otlp",
	"go.uber.org/atomic",
	"golang.org/x/net",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/text",
	"google.golang.org/genproto/googleapis/api",
	"google.golang.org/genproto/googleapis/rpc",
	"google.golang.org/grpc",
	"google.golang.org/protobuf",
}

// The binary of make build is small, once it is stripped, and has the modules that are listed here.
func TestSize(t *testing.T) {
	make := exec.Command("make", "--no-print-directory", "--dry-run", "build")
	make.Dir = root
	lines, err := make.Output()
	fatal(t, err)
	first, _, _ := strings.Cut(string(lines), "\n")
	command := strings.Fields(first)
	path := filepath.Join(t.TempDir(), "weir")
	command[slices.Index(command, "-o")+1] = path
	command = slices.Insert(command, slices.Index(command, "-o"), "-ldflags=-s -w")
	building := exec.Command(command[0], command[1:]...)
	building.Dir = root
	if said, err := building.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	info, err := os.Stat(path)
	fatal(t, err)
	if info.Size() > maxSize {
		t.Errorf("%q has %d bytes: want at most %d. go build -ldflags=-dumpdep tells which code calls reflect's Method or MethodByName: with it, the linker keeps all methods",
			command, info.Size(), maxSize)
	}
	built, err := buildinfo.ReadFile(path)
	fatal(t, err)
	var has []string
	for _, m := range built.Deps {
		if !strings.HasPrefix(m.Path, "github.com/weir-go/weir") {
			has = append(has, m.Path)
		}
	}
	if !slices.Equal(has, modules) {
		t.Errorf("it has the modules\n%s", strings.Join(has, "\n"))
	}
}
