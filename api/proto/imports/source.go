package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// source writes a proto2 file as text.
func source(file protoreflect.FileDescriptor) string {
	p := &printer{}
	p.line("// Written by api/proto/imports from a compiled descriptor; comments and options are left out.")
	p.line("syntax = %q;", file.Syntax())
	p.line("package %s;", file.Package())
	for i := range file.Imports().Len() {
		p.line("import %q;", file.Imports().Get(i).Path())
	}
	p.line("option go_package = %q;", file.Options().(*descriptorpb.FileOptions).GetGoPackage())
	for i := range file.Enums().Len() {
		p.enum(file.Enums().Get(i))
	}
	for i := range file.Messages().Len() {
		p.message(file.Messages().Get(i))
	}
	for i := range file.Extensions().Len() {
		p.extension(file.Extensions().Get(i))
	}
	return p.String()
}

type printer struct {
	strings.Builder
	depth int
}

func (p *printer) line(format string, args ...any) {
	p.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

func (p *printer) block(head string, body func()) {
	p.line("%s {", head)
	p.depth++
	body()
	p.depth--
	p.line("}")
}

func (p *printer) enum(e protoreflect.EnumDescriptor) {
	p.block("enum "+string(e.Name()), func() {
		for i := range e.ReservedRanges().Len() {
			r := e.ReservedRanges().Get(i) // both ends included
			p.line("reserved %d to %d;", r[0], r[1])
		}
		for i := range e.Values().Len() {
			p.line("%s = %d;", e.Values().Get(i).Name(), e.Values().Get(i).Number())
		}
	})
}

func (p *printer) message(m protoreflect.MessageDescriptor) {
	p.block("message "+string(m.Name()), func() {
		for i := range m.ReservedRanges().Len() {
			r := m.ReservedRanges().Get(i) // the second end is excluded
			p.line("reserved %d to %d;", r[0], r[1]-1)
		}
		for i := range m.ReservedNames().Len() {
			p.line("reserved %q;", m.ReservedNames().Get(i))
		}
		for i := range m.ExtensionRanges().Len() {
			r := m.ExtensionRanges().Get(i)
			p.line("extensions %d to %d;", r[0], r[1]-1)
		}
		for i := range m.Enums().Len() {
			p.enum(m.Enums().Get(i))
		}
		for i := range m.Messages().Len() {
			p.message(m.Messages().Get(i))
		}
		for i := range m.Fields().Len() {
			if f := m.Fields().Get(i); f.ContainingOneof() == nil {
				p.line("%s %s", f.Cardinality(), declaration(f))
			}
		}
		for i := range m.Oneofs().Len() {
			oneof := m.Oneofs().Get(i)
			p.block("oneof "+string(oneof.Name()), func() {
				for j := range oneof.Fields().Len() {
					p.line("%s", declaration(oneof.Fields().Get(j)))
				}
			})
		}
	})
}

func (p *printer) extension(x protoreflect.ExtensionDescriptor) {
	p.block("extend ."+string(x.ContainingMessage().FullName()), func() {
		p.line("%s %s", x.Cardinality(), declaration(x))
	})
}

func declaration(f protoreflect.FieldDescriptor) string {
	kind := f.Kind().String()
	switch {
	case f.Message() != nil:
		kind = "." + string(f.Message().FullName())
	case f.Enum() != nil:
		kind = "." + string(f.Enum().FullName())
	}
	return fmt.Sprintf("%s %s = %d;", kind, f.Name(), f.Number())
}
