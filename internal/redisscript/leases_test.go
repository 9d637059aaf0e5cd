package redisscript_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redisscript"
)

func TestLeaseReply(t *testing.T) {
	for _, tt := range []struct {
		reply []int64
		want  redisscript.LeaseReply
	}{
		{[]int64{1e15, 1, 7, 0, 3}, redisscript.LeaseReply{Time: 1e9 * time.Second, Granted: true, Held: []int64{3}, Token: 7}},
		{[]int64{1e15, 0, 7, 2, 3}, redisscript.LeaseReply{Time: 1e9 * time.Second, Held: []int64{3}, Place: 2, Wait: 7 * time.Microsecond}},
		{[]int64{1e15, -1, 7, 0, 3}, redisscript.LeaseReply{Time: 1e9 * time.Second, QueueFull: true, Held: []int64{3}, Wait: 7 * time.Microsecond}},
	} {
		if got, err := redisscript.ReadLeaseReply(tt.reply, 1); !reflect.DeepEqual(got, tt.want) || err != nil {
			t.Errorf("%v: %+v, %v, want %+v", tt.reply, got, err, tt.want)
		}
	}
	if _, err := redisscript.ReadLeaseReply(make([]int64, 5), 2); err == nil {
		t.Error("a reply for one key counts as one for two")
	}
}
