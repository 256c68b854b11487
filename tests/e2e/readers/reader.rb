# What Ruby reads in a request: by its CGI library, by URI and by JSON.
require 'cgi'
require 'json'
require 'socket'
require 'uri'

NAME = 'ask_sum'

def values_in(text)
  decoded = begin
    URI.decode_www_form(text)
  rescue ArgumentError
    []
  end
  CGI.parse(text)[NAME] + decoded.select { |name, _| name == NAME }.map(&:last)
end

def read(method, target, type, body)
  query = target.split('?', 2)[1] || ''
  form = type.start_with?('application/x-www-form-urlencoded') ? body : ''
  json = begin
    JSON.parse(body)
  rescue JSON::ParserError
    nil
  end
  values = values_in(query) + values_in(form)
  values << json[NAME] if json.is_a?(Hash) && json.key?(NAME)
  { values: values, method: CGI.parse(form)['_method'].first || method }
end

server = TCPServer.new('127.0.0.1', 0)
puts server.addr[1]
$stdout.flush
loop do
  client = server.accept
  first = client.gets
  next client.close if first.nil?

  method, target = first.split
  fields = {}
  while (line = client.gets.chomp) != ''
    name, value = line.split(':', 2)
    fields[name.downcase] = value.strip
  end
  body = client.read(fields['content-length'].to_i)
  answer = JSON.generate(read(method, target, fields['content-type'] || '', body))
  client.write "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" \
               "Content-Length: #{answer.bytesize}\r\n\r\n#{answer}"
  client.close
end
