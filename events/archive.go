package events

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The archive file is one session's history, or a part of it, in one file with checksums. FORMAT.md has the byte
// table.
//
//	magic "LASHARC1" | frame | frame | ... | end frame
//	frame: type byte, length uint32 big-endian, body
const (
	archiveMagic = "LASHARC1"

	frameHeader  = 'h' // archiveHeader, msgpack
	frameCommits = 'c' // zstd of records: sequence uvarint, length uvarint, commit
	frameBlob    = 'b' // zstd of a blob's body
	frameEnd     = 'e' // archiveEnd, msgpack

	// maxFrameBytes limits a frame, both stored and decompressed.
	maxFrameBytes = 64 << 20
	// flushBytes is the size of buffered commits that makes a frame.
	flushBytes = 256 << 10
)

// MaxBlobBytes limits one body outside the log. A body that does not compress grows by about 24 bytes per MiB and
// must still fit a frame.
const MaxBlobBytes = maxFrameBytes - 64<<10

type archiveHeader struct {
	Format  int64     `msgpack:"f"`
	Session SessionID `msgpack:"s"`
	First   Seq       `msgpack:"q"`

	Redactions []RedactionRecord `msgpack:"r,omitempty"` // in order
}

type archiveEnd struct {
	Commits int64  `msgpack:"n"`
	Blobs   int64  `msgpack:"b"`
	Last    Seq    `msgpack:"q"`
	Digest  string `msgpack:"d"` // hex sha256 of every byte before this frame
}

// ArchiveWriter writes an archive: commits in order, blobs, then Close.
type ArchiveWriter struct {
	w       io.Writer
	sum     hash.Hash
	zip     *zstd.Encoder
	session SessionID
	end     archiveEnd
	pending []byte
	err     error // sticky
	closed  bool
}

// NewArchiveWriter starts an archive of session. The first commit has sequence first. redactions are the records of
// payloads that commits lack.
func NewArchiveWriter(w io.Writer, session SessionID, first Seq, redactions ...RedactionRecord) (*ArchiveWriter, error) {
	if err := CheckToken("session", session); err != nil {
		return nil, err
	}
	if err := CheckRedactions(redactions); err != nil {
		return nil, err
	}
	if first < 1 {
		return nil, invalid("first", "must be at least 1")
	}
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", session, err)
	}
	sum := sha256.New()
	a := &ArchiveWriter{w: io.MultiWriter(w, sum), sum: sum, zip: zip, session: session, end: archiveEnd{Last: first - 1}}
	header, err := EncodePayload(&archiveHeader{Format: 1, Session: session, First: first, Redactions: redactions})
	if err != nil {
		return nil, err
	}
	a.write([]byte(archiveMagic))
	a.frame(frameHeader, header)
	return a, a.err
}

// Commit adds the next commit. It writes the stored encoding if the entry has it. The sequence must follow the
// previous one.
func (a *ArchiveWriter) Commit(e Entry) error {
	seq, data := e.Seq, e.Data
	switch {
	case a.err != nil:
		return a.err
	case a.closed:
		return fmt.Errorf("archive %s: %w: closed", a.session, ErrInvalid)
	case seq != a.end.Last+1:
		return fmt.Errorf("archive %s: %w: sequence %d after %d", a.session, ErrInvalid, seq, a.end.Last)
	case e.Commit.Session != a.session:
		return fmt.Errorf("archive %s: %w: commit of session %s", a.session, ErrInvalid, e.Commit.Session)
	}
	if len(data) == 0 {
		var err error
		if data, err = Encode(e.Commit); err != nil {
			return err
		}
	}
	a.pending = binary.AppendUvarint(a.pending, uint64(seq))
	a.pending = binary.AppendUvarint(a.pending, uint64(len(data)))
	a.pending = append(a.pending, data...)
	a.end.Last, a.end.Commits = seq, a.end.Commits+1
	if len(a.pending) >= flushBytes {
		a.flush()
	}
	return a.err
}

// Blob adds a body that commits refer to.
func (a *ArchiveWriter) Blob(body []byte) error {
	switch {
	case a.err != nil:
		return a.err
	case a.closed:
		return fmt.Errorf("archive %s: %w: closed", a.session, ErrInvalid)
	case len(body) > MaxBlobBytes:
		return tooLarge("blob", len(body), MaxBlobBytes)
	}
	a.flush()
	a.end.Blobs++
	a.frame(frameBlob, a.zip.EncodeAll(body, nil))
	return a.err
}

// Close writes the end frame. It does not close the underlying writer. A second call does nothing.
func (a *ArchiveWriter) Close() error {
	if a.closed {
		return a.err
	}
	a.closed = true
	a.flush()
	a.end.Digest = hex.EncodeToString(a.sum.Sum(nil))
	end, err := EncodePayload(&a.end)
	if err != nil {
		return err
	}
	a.frame(frameEnd, end)
	return a.err
}

func (a *ArchiveWriter) flush() {
	if len(a.pending) > 0 {
		a.frame(frameCommits, a.zip.EncodeAll(a.pending, nil))
		a.pending = a.pending[:0]
	}
}

func (a *ArchiveWriter) frame(kind byte, body []byte) {
	var header [5]byte
	header[0] = kind
	binary.BigEndian.PutUint32(header[1:], uint32(len(body)))
	a.write(header[:])
	a.write(body)
}

func (a *ArchiveWriter) write(b []byte) {
	if a.err == nil {
		if _, err := a.w.Write(b); err != nil {
			a.err = fmt.Errorf("archive %s: %w", a.session, err)
		}
	}
}

// Archive is a completely read and verified archive file.
type Archive struct {
	Session SessionID
	First   Seq
	Log     *MemLog
	Blobs   map[string][]byte // by hex digest

	Redactions []RedactionRecord // of payloads that are missing, in order; an archive of an earlier version has none
}

// Before is the archive up to the commit before a sequence. It shares the rest with a.
func (a *Archive) Before(seq Seq) *Archive {
	out := *a
	out.Log = &MemLog{}
	from, to := a.Log.sessions[a.Session], out.Log.createLocked(a.Session, a.First)
	for i := 0; i < len(from.raw) && from.first+Seq(i) < seq; i++ {
		to.raw = append(to.raw, from.raw[i])
	}
	for id, at := range from.ids {
		if at < seq {
			to.ids[id] = at
		}
	}
	return &out
}

// PeekArchive reports whether r begins as an archive file does. whole is r from its beginning. Errors: those of reading r;
// a file that is shorter is no archive.
func PeekArchive(r io.Reader) (whole io.Reader, isArchive bool, err error) {
	begin := make([]byte, len(archiveMagic))
	n, err := io.ReadFull(r, begin)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return io.MultiReader(bytes.NewReader(begin[:n]), r), string(begin[:n]) == archiveMagic, err
}

// ReadArchive reads r to its end and checks order, counts, digests and every commit. limit bounds the decompressed
// content in bytes, which stays in memory and may be a thousand times the file's size. Errors wrap [ErrMalformed],
// [ErrFutureVersion], [ErrTooLarge] or those of [Decode].
func ReadArchive(r io.Reader, limit int64) (*Archive, error) {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrameBytes))
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	defer unzip.Close()
	a := &archiveReader{r: bufio.NewReader(r), sum: sha256.New(), unzip: unzip, limit: limit, left: limit}
	a.out.Log, a.out.Blobs = &MemLog{}, make(map[string][]byte)
	if err := a.readAll(); err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	return &a.out, nil
}

type archiveReader struct {
	r     *bufio.Reader
	sum   hash.Hash
	unzip *zstd.Decoder
	out   Archive
	hist  *memSession
	blobs int64

	limit, left int64 // bytes of content
}

func (a *archiveReader) readAll() error {
	magic := make([]byte, len(archiveMagic))
	if _, err := io.ReadFull(a.r, magic); err != nil || string(magic) != archiveMagic {
		return fmt.Errorf("%w: not a lash archive", ErrMalformed)
	}
	a.sum.Write(magic)
	for {
		digest := hex.EncodeToString(a.sum.Sum(nil))
		kind, body, err := a.frame()
		if err != nil {
			return err
		}
		if a.hist == nil && kind != frameHeader {
			return fmt.Errorf("%w: the first frame is not the header", ErrMalformed)
		}
		if kind == frameEnd {
			return a.finish(body, digest)
		}
		if err := a.accept(kind, body); err != nil {
			return err
		}
	}
}

func (a *archiveReader) frame() (byte, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(a.r, header[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: ends without an end frame", ErrMalformed)
	}
	size := binary.BigEndian.Uint32(header[1:])
	if size > maxFrameBytes {
		return 0, nil, tooLarge("frame", int(size), maxFrameBytes)
	}
	body, err := io.ReadAll(io.LimitReader(a.r, int64(size)))
	if err != nil || len(body) != int(size) {
		return 0, nil, fmt.Errorf("%w: frame is cut short", ErrMalformed)
	}
	a.sum.Write(header[:])
	a.sum.Write(body)
	return header[0], body, nil
}

func (a *archiveReader) accept(kind byte, body []byte) error {
	switch kind {
	case frameHeader:
		return a.header(body)
	case frameCommits, frameBlob:
		plain, err := a.unzip.DecodeAll(body, nil)
		if err != nil {
			return fmt.Errorf("%w: the frame after sequence %d: %w", ErrMalformed, a.hist.last(), err)
		}
		if a.left -= int64(len(plain)); a.left < 0 {
			return &FieldError{Field: "archive", Reason: fmt.Sprintf("holds more than %d bytes", a.limit), Err: ErrTooLarge}
		}
		if kind == frameCommits {
			return a.commits(plain)
		}
		sum := sha256.Sum256(plain)
		a.out.Blobs[hex.EncodeToString(sum[:])] = plain
		a.blobs++
		return nil
	}
	return fmt.Errorf("%w: unknown frame %q", ErrMalformed, kind)
}

func (a *archiveReader) header(body []byte) error {
	if a.hist != nil {
		return fmt.Errorf("%w: a second header", ErrMalformed)
	}
	var h archiveHeader
	if err := DecodePayload(body, &h); err != nil {
		return err
	}
	if h.Format > 1 {
		return fmt.Errorf("%w: archive format %d, this program reads 1", ErrFutureVersion, h.Format)
	}
	if err := CheckToken("session", h.Session); err != nil {
		return err
	}
	if h.First < 1 {
		return fmt.Errorf("%w: first sequence 0", ErrMalformed)
	}
	if err := CheckRedactions(h.Redactions); err != nil {
		return fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	a.out.Session, a.out.First, a.out.Redactions = h.Session, h.First, h.Redactions
	a.hist = a.out.Log.createLocked(h.Session, h.First)
	return nil
}

func (a *archiveReader) commits(plain []byte) error {
	for len(plain) > 0 {
		seq, n := binary.Uvarint(plain)
		if n <= 0 {
			return fmt.Errorf("%w: record", ErrMalformed)
		}
		plain = plain[n:]
		size, n := binary.Uvarint(plain)
		if n <= 0 || size > uint64(len(plain)-n) {
			return fmt.Errorf("%w: record of sequence %d is cut short", ErrMalformed, seq)
		}
		data := plain[n : n+int(size)]
		plain = plain[n+int(size):]
		if err := a.commit(Seq(seq), data); err != nil {
			return fmt.Errorf("sequence %d: %w", seq, err)
		}
	}
	return nil
}

func (a *archiveReader) commit(seq Seq, data []byte) error {
	c, err := Decode(data)
	if err != nil {
		return err
	}
	last := a.hist.last()
	if seq != last+1 || c.Session != a.out.Session {
		return fmt.Errorf("%w: commit of session %s out of place, want sequence %d", ErrMalformed, c.Session, last+1)
	}
	a.hist.add(c.ID, data) // an id may occur twice: the first commit is found by it
	return nil
}

func (a *archiveReader) finish(body []byte, digest string) error {
	var end archiveEnd
	if err := DecodePayload(body, &end); err != nil {
		return err
	}
	last := a.hist.last()
	if end.Digest != digest || end.Last != last || end.Commits != int64(len(a.hist.raw)) || end.Blobs != a.blobs {
		return fmt.Errorf("%w: digest or counts do not match", ErrMalformed)
	}
	if _, err := a.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: bytes after the end frame", ErrMalformed)
	}
	return nil
}
