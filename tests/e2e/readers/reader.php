<?php
// What PHP reads in a request: every value that it has under the name, by every way of asking, and
// the method as Symfony takes it from a form, and Laravel from JSON.
$name = 'ask_sum';
$json = json_decode(file_get_contents('php://input'), true);
$asked = [$_GET, $_POST, $_REQUEST, is_array($json) ? $json : []];
$values = [];
$method = $_SERVER['REQUEST_METHOD'];
foreach ($asked as $fields) {
    if (array_key_exists($name, $fields)) {
        $values[] = $fields[$name];
    }
    if (isset($fields['_method']) && is_string($fields['_method'])) {
        $method = strtoupper($fields['_method']);
    }
}
header('Content-Type: application/json');
echo json_encode(['values' => $values, 'method' => $method], JSON_PARTIAL_OUTPUT_ON_ERROR);
