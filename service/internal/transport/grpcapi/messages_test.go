package grpcapi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// verbatim sends a text as the message.
type verbatim struct{}

func (verbatim) Marshal(v any) ([]byte, error) { return []byte(v.(string)), nil }

func (verbatim) Unmarshal([]byte, any) error { return nil }

func (verbatim) Name() string { return "proto" }

// Messages that gRPC itself refuses get the errors that the proto of weir.v1 lists.
func TestMessages(t *testing.T) {
	r := newRig(t, grpcapi.Config{}, config.RateLimitOptions{}, rules)
	s := r.api.NewServer()
	weirapi.New(r.server, weirapi.Config{}).Register(s)
	conn := dial(t, s)
	proto, err := os.ReadFile("../../../../api/weir/v1/weir.proto")
	testrig.Must(t, err)
	for _, tt := range []struct {
		name, message, listed string
		code                  codes.Code
	}{
		{"too long", strings.Repeat("x", 256<<10+1), "RESOURCE_EXHAUSTED", codes.ResourceExhausted},
		{"not protobuf", "x", "INTERNAL", codes.Internal},
		{"a key that is not UTF-8", "\x0a\x01\xff", "INTERNAL", codes.Internal},
		{"an empty key", "\x0a\x01 ", "INVALID_ARGUMENT", codes.InvalidArgument},
	} {
		err := conn.Invoke(t.Context(), weirv1.WeirService_Decide_FullMethodName, tt.message, new(string), grpc.ForceCodec(verbatim{}))
		if status.Code(err) != tt.code || !strings.Contains(string(proto), "\n//   "+tt.listed+" ") {
			t.Errorf("%s: %v: want %v, and that the proto lists it", tt.name, err, tt.code)
		}
	}
}
