// Sbom writes what a Go binary is made of, as its build information has it: each module with its version and its
// checksum, and the version of Go.
//
//	go run ./sbom -spdx weir.spdx.json -cyclonedx weir.cdx.json ../../bin/weir
//
// The documents are in the formats SPDX 2.3 and CycloneDX 1.6. They depend on the binary alone.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sbom: ")
	spdxFile := flag.String("spdx", "", "the SPDX document to write")
	cycloneFile := flag.String("cyclonedx", "", "the CycloneDX document to write")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name one binary")
	}
	b, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	if *spdxFile != "" {
		err = write(*spdxFile, b.spdx)
	}
	if *cycloneFile != "" {
		err = errors.Join(err, write(*cycloneFile, b.cyclonedx))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A binary is a Go binary with the modules that are in it.
type binary struct {
	name    string
	sum     []byte // SHA-256
	at      string // the time of the commit, or else the epoch
	main    module
	modules []module
}

type module struct{ path, version, sum string }

func (m module) purl() string { return "pkg:golang/" + m.path + "@" + m.version }

func read(path string) (*binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	b := &binary{name: filepath.Base(path), sum: sum[:], at: "1970-01-01T00:00:00Z", main: module{path: info.Main.Path, version: info.Main.Version}}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			b.at = s.Value
		}
	}
	b.modules = append(b.modules, module{path: "stdlib", version: strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m = cmp.Or(m.Replace, m); m.Version == "(devel)" { // of the same workspace
			m.Version = b.main.version
		}
		b.modules = append(b.modules, module{m.Path, m.Version, m.Sum})
	}
	return b, nil
}

// hash returns the checksum of a module in hexadecimal digits, or "".
func (m module) hash() string {
	text, ok := strings.CutPrefix(m.sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

func (b *binary) spdx(w io.Writer) error {
	none := "NOASSERTION"
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: b.name,
		DocumentNamespace: "https://github.com/weir-go/weir/spdx/" + b.name + "-" + hex.EncodeToString(b.sum),
		CreationInfo:      &spdx.CreationInfo{Created: b.at, Creators: []common.Creator{{Creator: "weir/internal/tools/sbom", CreatorType: "Tool"}}},
	}
	root := common.MakeDocElementID("", "binary")
	add := func(id common.DocElementID, name string, m module, sum string) {
		p := &spdx.Package{
			PackageName: name, PackageSPDXIdentifier: id.ElementRefID, PackageVersion: m.version, PackageDownloadLocation: none,
			PackageLicenseConcluded: none, PackageLicenseDeclared: none, PackageCopyrightText: none,
			PackageExternalReferences: []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: m.purl()}},
		}
		if sum != "" {
			p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
		}
		doc.Packages = append(doc.Packages, p)
	}
	add(root, b.name, b.main, hex.EncodeToString(b.sum))
	doc.Relationships = []*spdx.Relationship{{RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: root, Relationship: common.TypeRelationshipDescribe}}
	for i, m := range b.modules {
		id := common.MakeDocElementID("", fmt.Sprintf("module-%d", i))
		add(id, m.path, m, m.hash())
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{RefA: root, RefB: id, Relationship: common.TypeRelationshipContains})
	}
	return spdxjson.Write(doc, w, spdxjson.Indent("  "))
}

func (b *binary) cyclonedx(w io.Writer) error {
	component := func(kind cyclonedx.ComponentType, name string, m module, sum string) cyclonedx.Component {
		c := cyclonedx.Component{BOMRef: m.purl(), Type: kind, Name: name, Version: m.version, PackageURL: m.purl()}
		if sum != "" {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
		}
		return c
	}
	root := component(cyclonedx.ComponentTypeApplication, b.name, b.main, hex.EncodeToString(b.sum))
	var modules []cyclonedx.Component
	var refs []string
	for _, m := range b.modules {
		modules = append(modules, component(cyclonedx.ComponentTypeLibrary, m.path, m, m.hash()))
		refs = append(refs, m.purl())
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, b.sum).URN()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.at, Component: &root}
	bom.Components = &modules
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
}

// write writes a document to a file.
func write(path string, doc func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(doc(f), f.Close())
}
