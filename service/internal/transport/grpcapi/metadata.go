package grpcapi

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// appendMetadata appends the dynamic metadata of envoyproxy/ratelimit: the request, and the
// metadata of the rules that allow it.
func (c *call) appendMetadata(b []byte) []byte {
	list := []any{}
	for i := range c.requests {
		_, entries, _ := descriptor.Parse(c.requests[i].Key)
		texts := []any{}
		for _, e := range entries {
			texts = append(texts, e.Key+"="+e.Value)
		}
		list = append(list, map[string]any{"entries": texts})
	}
	passed := map[string]any{}
	for _, i := range c.passed {
		if r := c.verdicts[i].Rule; r != nil && r.Descriptor != nil && (i >= len(c.limits) || !c.limits[i].set) {
			mergeMetadata(passed, r.Descriptor.Metadata)
		}
	}
	fields := map[string]any{"domain": string(c.domain), "descriptors": list}
	if c.hits > 0 {
		fields["hitsAddend"] = c.hits
	}
	if len(passed) > 0 {
		fields["metadata"] = passed
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

// mergeMetadata adds fields that are missing, also within fields that both have. It does not
// change what it adds.
func mergeMetadata(to, from map[string]any) {
	for name, value := range from {
		was, taken := to[name]
		fields, nested := value.(map[string]any)
		switch into, both := was.(map[string]any); {
		case !taken && nested:
			added := map[string]any{}
			mergeMetadata(added, fields)
			to[name] = added
		case !taken:
			to[name] = value
		case nested && both:
			mergeMetadata(into, fields)
		}
	}
}
