package grpcapi

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// appendMetadata appends the dynamic metadata of envoyproxy/ratelimit: the request, and the
// indexes of descriptors beyond their limit in quota mode.
func (c *call) appendMetadata(b []byte) []byte {
	list, violated, quota := []any{}, []any{}, false
	for i := range c.requests {
		_, entries, _ := descriptor.Parse(c.requests[i].Key)
		texts := []any{}
		for _, e := range entries {
			texts = append(texts, e.Key+"="+e.Value)
		}
		list = append(list, map[string]any{"entries": texts})
		if r := c.verdicts[i].Rule; r != nil && r.Descriptor != nil && r.Descriptor.Quota {
			quota = true
		}
	}
	for _, i := range c.violated {
		violated = append(violated, i)
	}
	fields := map[string]any{"domain": string(c.domain), "descriptors": list, "quotaModeEnabled": quota}
	if c.hits > 0 {
		fields["hitsAddend"] = c.hits
	}
	if len(violated) > 0 {
		fields["quotaModeViolations"] = violated
	}
	s, err := structpb.NewStruct(fields)
	if err != nil { // a text that is not UTF-8
		return b
	}
	message, err := proto.Marshal(s)
	if err != nil {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, responseMetadata, protowire.BytesType), message)
}
