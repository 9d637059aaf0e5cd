// Provenance writes how the files of a release were made, as a statement of in-toto with a predicate of SLSA:
//
//	go run ./provenance -tag v1.2.3 -commit SHA -sums SHA256SUMS -key KEY -o SHA256SUMS.intoto.json
//
// With the key, gpg signs the statement: SHA256SUMS.intoto.json.sig.
// The statement names each file of the checksums. It depends on the arguments, the version of Go, and on the workflow of
// GitHub that runs it, if there is one.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const repository = "https://github.com/weir-go/weir"

func main() {
	log.SetFlags(0)
	log.SetPrefix("provenance: ")
	tag := flag.String("tag", "", "the tag of the release")
	commit := flag.String("commit", "", "the commit of the tag")
	sums := flag.String("sums", "SHA256SUMS", "the checksums of the files")
	key := flag.String("key", "", "the key of gpg that signs the statement")
	out := flag.String("o", "SHA256SUMS.intoto.json", "the statement to write")
	flag.Parse()
	text, err := os.ReadFile(*sums)
	if err != nil {
		log.Fatal(err)
	}
	statement, err := state(*tag, *commit, text)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, statement, 0o644); err != nil {
		log.Fatal(err)
	}
	if *key == "" {
		return
	}
	if said, err := exec.Command("gpg", "--batch", "--yes", "--local-user", *key, "--output", *out+".sig", "--detach-sign", *out).CombinedOutput(); err != nil {
		log.Fatalf("gpg: %v: %s", err, said)
	}
}

// state returns the statement about the files of checksums.
func state(tag, commit string, sums []byte) ([]byte, error) {
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1"}
	for s := bufio.NewScanner(bytes.NewReader(sums)); s.Scan(); {
		sum, name, found := strings.Cut(s.Text(), "  ")
		if !found {
			return nil, fmt.Errorf("%q is no checksum with the name of a file", s.Text())
		}
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	source := "git+" + repository + "@refs/tags/" + tag
	builder := repository + "/blob/" + tag + "/Makefile"
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		builder = cmp.Or(os.Getenv("GITHUB_SERVER_URL"), "https://github.com") + "/" + workflow
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:            repository + "/blob/" + tag + "/CONTRIBUTING.md#a-release",
			ExternalParameters:   object("source", source, "command", "make release"),
			InternalParameters:   object("go", runtime.Version()),
			ResolvedDependencies: []*intoto.ResourceDescriptor{{Uri: source, Digest: map[string]string{"gitCommit": commit}}},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: builder}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	statement.Predicate = new(structpb.Struct)
	if err := protojson.Unmarshal(text, statement.Predicate); err != nil {
		return nil, err
	}
	if err := statement.Validate(); err != nil {
		return nil, err
	}
	if text, err = protojson.Marshal(statement); err != nil {
		return nil, err
	}
	var pretty bytes.Buffer // protojson varies its spaces
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		return nil, err
	}
	pretty.WriteByte('\n')
	return pretty.Bytes(), nil
}

// object returns an object of pairs of names and texts.
func object(pairs ...string) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = structpb.NewStringValue(pairs[i+1])
	}
	return &structpb.Struct{Fields: fields}
}
