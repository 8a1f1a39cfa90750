package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/lash-go/lash/session/memory"
)

func storeBlob(c *httpRequest) (reply, error) {
	most := c.s.cfg.MaxBlobBytes
	data, err := c.readUpTo(most, copiesOfBlob)
	if err != nil {
		return reply{}, err
	}
	ref, err := c.s.cfg.Service.StoreBlob(c.Context(), c.session, data)
	return reply{status: http.StatusCreated, body: shown(new(blobJSON), ref), location: c.locate("/blobs/", ref.Digest)}, err
}

func getBlob(c *httpRequest) (reply, error) {
	refs, err := c.s.cfg.Service.FindBlobs(c.Context(), c.session, c.PathValue("digest"))
	if err != nil {
		return reply{}, err
	}
	ref := refs[0]
	if c.Method == http.MethodHead {
		return reply{status: http.StatusOK, size: int(ref.Size)}, nil
	}
	out := reply{status: http.StatusOK}
	if ref.Size > smallBody {
		if err := memory.Take(c.Context(), copiesOfBlob*ref.Size); err != nil {
			return reply{}, err
		}
	}
	out.data, err = c.s.cfg.Service.ReadBlob(c.Context(), c.session, ref.Digest)
	out.size = len(out.data)
	return out, err
}

// sendBytes is the size of one write of a body, in bytes.
const sendBytes = 256 << 10

// send writes the reply's bytes in chunks, within the speed of the client and the caller's byte limit.
func (s *Server) send(c *httpRequest, out reply) {
	h, conn := c.w.Header(), http.NewResponseController(c.w)
	h.Set("Content-Type", octets)
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Length", strconv.Itoa(out.size))
	c.w.WriteHeader(out.status)
	for data := out.data; len(data) > 0; {
		piece := data[:min(len(data), sendBytes)]
		if awaitBytes(c.Context(), c.limiter, len(piece)) != nil {
			return // the client sees an incomplete body
		}
		_ = conn.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)) // a test recorder has no deadline
		if _, err := c.w.Write(piece); err != nil {
			return
		}
		data = data[len(piece):]
	}
}
