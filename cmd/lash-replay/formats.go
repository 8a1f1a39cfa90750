package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/exchange"
)

// Formats of export that are not documents alone.
const (
	formatArchive = "archive"     // all of a history
	formatCOSE    = "record-cose" // signed
)

// format is a format of export.
type format struct {
	name      string
	extension string
	help      string // lines of the help
	write     func(*exportCmd, io.Writer, *exchange.Document) (*exchange.Losses, error)
}

// formats are the formats of export.
func formats() []format {
	return []format{
		{formatArchive, "lash", "all of the history; lash-replay reads it, and lash-node import puts it into a server", nil},
		{"chat", "jsonl", "the active path as a line of OpenAI's chat format; lash-node import reads it", plain(exchange.Chat)},
		{"pi", "pi.jsonl", "all branches as a session file of pi; lash-node import reads it", plain(exchange.Pi)},
		{"markdown", "md", "a report for people", plain(exchange.Markdown)},
		{"html", "html", "the same as one page without scripts, which loads nothing", plain(exchange.HTML)},
		{"otel", "otel.json", "traces in OTLP's JSON with OpenTelemetry's names for generative AI; a collector takes it at /v1/traces", plain(exchange.OTel)},
		{"record", "record.json", "a Verifiable Agent Conversation record as JSON; lash-node import reads it", record((*exportCmd).recordJSON)},
		{"record-cbor", "record.cbor", "the same as CBOR", record((*exportCmd).recordCBOR)},
		{formatCOSE, "record.cose", "the same as CBOR, signed in COSE_Sign1 with --key FILE", record((*exportCmd).recordCOSE)},
	}
}

// formatOf is a format by name.
func formatOf(name string) (format, error) {
	var names []string
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
		names = append(names, f.name)
	}
	return format{}, fmt.Errorf("--format must be one of %s but got %q", strings.Join(names, ", "), name)
}

// plain is a format that no flag changes.
func plain(write func(io.Writer, *exchange.Document) (*exchange.Losses, error)) func(*exportCmd, io.Writer, *exchange.Document) (*exchange.Losses, error) {
	return func(_ *exportCmd, w io.Writer, d *exchange.Document) (*exchange.Losses, error) { return write(w, d) }
}

// record is a format of records.
func record(encode func(*exportCmd, *exchange.Record) ([]byte, error)) func(*exportCmd, io.Writer, *exchange.Document) (*exchange.Losses, error) {
	return func(c *exportCmd, w io.Writer, d *exchange.Document) (*exchange.Losses, error) {
		data, err := encode(c, exchange.NewRecord(d, exchange.RecordOptions{Program: "lash-replay", Version: program.Build()}))
		if err == nil {
			_, err = w.Write(data)
		}
		return &exchange.Losses{}, err
	}
}

func (c *exportCmd) recordJSON(r *exchange.Record) ([]byte, error) {
	var out bytes.Buffer
	err := exchange.RecordJSON(&out, r)
	return out.Bytes(), err
}

func (c *exportCmd) recordCBOR(r *exchange.Record) ([]byte, error) { return exchange.RecordCBOR(r) }

func (c *exportCmd) recordCOSE(r *exchange.Record) ([]byte, error) {
	file, err := program.ReadFile(c.Key, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	key, err := exchange.ParseKey(file)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", c.Key, err)
	}
	return exchange.SignRecord(r, c.Issuer, key)
}

// document writes the session's conversation in another format.
func (w *written) document(ctx context.Context, c *exportCmd, f format, src source, temp *os.File) error {
	d, err := exchange.Read(ctx, src.Log(), src, w.Session)
	if err == nil {
		d.Redactions, err = src.Redactions(ctx, w.Session)
	}
	if err != nil {
		return err
	}
	absent := &exchange.Losses{}
	if c.Children {
		if absent, err = d.ReadChildren(ctx, src.Log(), src); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(temp)
	lost, err := f.write(c, out, d)
	if err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), temp.Sync()); err != nil {
		return err
	}
	info, err := temp.Stat()
	if err != nil {
		return err
	}
	w.Lost, w.Bytes, w.First, w.Last, w.Commits = append(absent.List(), lost.List()...), info.Size(), 1, d.Commits, int64(d.Commits)
	return temp.Close()
}
