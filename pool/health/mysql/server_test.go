package mysql

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// A panic of the library leaves a goroutine of it behind: see recovered.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1"))
}

// server is one side of a conversation in MySQL's protocol, as a server that does as
// the test says. Its first fault ends it.
type server struct {
	net.Conn
	sequence byte
	fault    error
}

// serve runs f for each connection. ends has how each was left.
func serve(t *testing.T, f func(s *server)) (address string, ends chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ends = make(chan error, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s := &server{Conn: c}
				f(s)
				ends <- s.fault
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String(), ends
}

// send sends one packet.
func (s *server) send(payload ...byte) {
	if s.fault != nil {
		return
	}
	n := len(payload)
	_, s.fault = s.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), s.sequence}, payload...))
	s.sequence++
}

// read reads one packet.
func (s *server) read() []byte {
	var head [4]byte
	if s.fault == nil {
		_, s.fault = io.ReadFull(s, head[:])
	}
	if s.fault != nil {
		return nil
	}
	payload := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, s.fault = io.ReadFull(s, payload)
	s.sequence = head[3] + 1
	return payload
}

// nonce is what every server of these tests greets with.
const nonce = "abcdefghijklmnopqrst"

// greeting is the payload of a greeting that has all there is, but TLS.
func greeting(version, plugin string) []byte {
	p := append([]byte{10}, version...)
	p = append(p, 0, 1, 0, 0, 0)
	p = append(p, nonce[:8]...)
	p = append(p, 0, 0xff, 0xf7, 45, 2, 0, 0xff, 0x80, 21)
	p = append(p, make([]byte, 10)...)
	p = append(p, nonce[8:]...)
	p = append(p, 0)
	return append(append(p, plugin...), 0)
}

func (s *server) greet() { s.send(greeting("8.4.0", "mysql_native_password")...) }

func (s *server) ok() { s.send(0, 0, 0, 2, 0, 0, 0) }

func (s *server) refuse(number int, state, text string) {
	s.send(append(binary.LittleEndian.AppendUint16([]byte{0xff}, uint16(number)), "#"+state+text...)...)
}

func text(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// answer sends rows of values, the first of which are the names of columns.
func (s *server) answer(rows ...[]string) {
	s.send(byte(len(rows[0])))
	for _, name := range rows[0] {
		var p []byte
		for _, part := range []string{"def", "", "", "", name, ""} {
			p = append(p, text(part)...)
		}
		s.send(append(p, 12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0)...)
	}
	s.send(0xfe, 0, 0, 2, 0)
	for _, row := range rows[1:] {
		var p []byte
		for _, value := range row {
			if value == "NULL" {
				p = append(p, 0xfb)
				continue
			}
			p = append(p, text(value)...)
		}
		s.send(p...)
	}
	s.send(0xfe, 0, 0, 2, 0)
}

// answers lets everybody in and answers queries by their beginnings, until COM_QUIT
// and the end behind it; anything else is a fault.
func answers(by map[string][][]string) func(*server) {
	return func(s *server) {
		s.greet()
		s.read()
		s.ok()
		s.commands(by)
	}
}

func (s *server) commands(by map[string][][]string) {
	for s.fault == nil {
		command := s.read()
		switch {
		case s.fault != nil:
		case command[0] == 1:
			if n, err := s.Read(make([]byte, 1)); err != io.EOF {
				s.fault = fmt.Errorf("after COM_QUIT: %d bytes, %w", n, err)
			}
			return
		case command[0] != 3:
			s.fault = fmt.Errorf("got command %d", command[0])
		default:
			s.query(string(command[1:]), by)
		}
	}
}

func (s *server) query(query string, by map[string][][]string) {
	for beginning, rows := range by {
		if strings.HasPrefix(query, beginning) {
			s.answer(rows...)
			return
		}
	}
	s.refuse(1064, "42000", "You have an error in your SQL syntax near '"+query+"'")
}
