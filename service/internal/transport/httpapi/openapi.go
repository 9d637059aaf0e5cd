package httpapi

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var openAPI []byte

var openAPIJSON = sync.OnceValue(func() []byte {
	doc, err := yaml.YAMLToJSON(openAPI)
	if err != nil {
		panic("httpapi: openapi.yaml: " + err.Error()) // a test has read it
	}
	return doc
})

// openAPI sends the description of the API.
func (c *call) openAPI() *fault {
	c.w.Header()["Content-Type"] = jsonType
	_, _ = c.w.Write(openAPIJSON()) // a caller that is gone needs no answer
	return nil
}
