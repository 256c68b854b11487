// What Node reads in a request: by Express with its parsers, and by the platform's own.
import { createRequire } from 'node:module'
import querystring from 'node:querystring'

const require = createRequire(new URL('../clients/', import.meta.url))
const express = require('express')
const override = require('method-override')

const name = 'ask_sum'
const app = express()
app.use(express.json({ verify: keep }))
app.use(express.urlencoded({ extended: true, verify: keep }))
app.use(override('_method'))
app.use(override((request) => request.body?._method))

function keep(request, response, bytes) {
  request.bytes = bytes.toString('latin1')
}

app.use((request, response) => {
  const query = request.url.split('?')[1] ?? ''
  const form = request.is('urlencoded') ? (request.bytes ?? '') : ''
  const asked = [request.query, request.body, Object.assign({}, request.query, request.body)]
  for (const text of [query, form]) {
    asked.push(querystring.parse(text), Object.fromEntries(new URLSearchParams(text)))
  }
  const values = asked.map((fields) => fields?.[name]).filter((value) => value !== undefined)
  response.json({ values, method: request.method })
})
app.use((error, request, response, next) => response.status(400).json({ error: String(error) }))

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
